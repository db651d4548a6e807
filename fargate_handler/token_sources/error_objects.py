"""Reads the error objects of OpenAI-compatible servers, in all their forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

import orjson

_MOST_MESSAGE = 1_000
_MOST_EXPLANATION = 500
_MOST_WORD = 64
_MOST_DETAILS = 8
# Only the first characters of a message are read: later ones may quote the request.
_MOST_FIRST_WORDS = 80
_QUOTE = re.compile(r"""["`{\[]|(?<!\w)'""")

# Fields that name the kind of an error. Some servers have them next to `error`.
_NAMING = ("code", "type", "status", "error_type", "error_code", "reason", "kind", "__type")
_STATUSES = ("status_code", "http_status", "http_code", "status", "code", "error_code")
_TIMES = ("retry_after", "retry_after_ms")
_MESSAGES = ("message", "detail", "msg", "error_msg", "status_msg", "title")
_NO_ERROR_CODES = (None, "", 0, "0", 200)


class Busy(Enum):
    """The reason why a working server rejects calls now. The values are HTTP statuses."""

    THROTTLED = 429
    OVERLOADED = 503
    NO_QUOTA = 402


# Patterns for names of errors and for sentences. The first match decides.
_KINDS = (
    (
        Busy.NO_QUOTA,
        (
            r"insufficient[_ ]?(?:quota|balance|credits?|funds)|exceeded_current_quota"
            r"|credit balance|billing[_ ](?:hard[_ ]limit|not[_ ]active|error)|payment[_ ]required"
            r"|arrear|(?:bill|account)[_ ]?overdue|no resource package|free[_ ]?tier[_ ]?only"
        ),
    ),
    (
        Busy.THROTTLED,
        (
            r"rate[_ -]?limit|too[_ -]?many[_ -]?(?:requests|calls)|throttl|resource[_ ]?exhausted"
            r"|(?:requests?|tokens)[_ ]limit[_ ](?:exceeded|reached)|quota[_ ]?exceeded"
            r"|limit_(?:reached|requests|burst_rate|tokens)|tier capacity exceeded"
            r"|too many tokens, please wait|error code: 1015"
        ),
    ),
    (
        Busy.OVERLOADED,
        (
            r"overload|slow[_ ]?down|(?:server|engine|model|system)[_ ](?:is[_ ])?(?:too[_ ])?busy"
            r"|(?:service|model|temporarily)[_ ]?unavailable|^unavailable$"
            r"|(?:at|over|no|insufficient)[_ ]?capacity|capacity[_ ]exceeded"
        ),
    ),
)
_KINDS_BY_NAME = tuple((kind, re.compile(words, re.IGNORECASE)) for kind, words in _KINDS)
# GLM's errors have numbers, and messages in Chinese.
_KINDS_BY_NUMBER = {
    **dict.fromkeys(("1112", "1113", "1309"), Busy.NO_QUOTA),
    **dict.fromkeys(("1302", "1303", "1304", "1305", "1308", "1310"), Busy.THROTTLED),
}
# What OpenRouter and xAI say of a message that they refuse with 403, as they do a wrong key.
_FLAGGED = re.compile(r"\bwas flagged\b|violates usage guidelines", re.IGNORECASE)
_TRY_AGAIN = re.compile(
    r"(?:try again|retry)(?:[^.\d]{0,20}?) (?:in|after) "
    r"((?:[0-9]+(?:\.[0-9]+)? ?(?:ms|h|m|s)[a-z]* ?)+)",
    re.IGNORECASE,
)
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|h|m|s)")
_UNITS = {"h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class UpstreamErrorObject(NamedTuple):
    """The error of a model's server, as far as it can be read.

    Attributes:
        message: the server's words, for the log.
        explained: the server's words for readers. Empty: none.
        code, type, param: short words for programs. None: there is none.
        status: the HTTP status in the object. None: none.
        names: all words that name the kind of the error, joined.
        details: all words about parameters, joined.
        retry_after: seconds after which to retry. None: unknown.
    """

    message: str
    explained: str = ""
    code: str | None = None
    type: str | None = None
    param: str | None = None
    status: int | None = None
    names: str = ""
    details: str = ""
    retry_after: float | None = None

    @property
    def busy(self) -> Busy | None:
        """Why the server rejects calls now, by the names of the error. None: by another error."""
        numbers = map(_KINDS_BY_NUMBER.get, self.names.split())
        return _kind_in(self.names) or next(filter(None, numbers), None)

    @property
    def busy_by_words(self) -> Busy | None:
        """The same by the message, for an object without a name that is listed here."""
        return _kind_in(self.message)

    @property
    def busy_by_first_words(self) -> Busy | None:
        """The same by the beginning of a message that may quote the request: not `OVERLOADED`."""
        kind = _kind_in(_QUOTE.split(self.message, maxsplit=1)[0][:_MOST_FIRST_WORDS])
        return None if kind is Busy.OVERLOADED else kind

    @property
    def is_flagged(self) -> bool:
        """Whether the server calls the message itself forbidden."""
        return _FLAGGED.search(self.message) is not None

    @classmethod
    def of_body(cls, body: bytes) -> UpstreamErrorObject:
        """Read the error in the body of an HTTP answer."""
        try:
            return cls.of(orjson.loads(body))
        except orjson.JSONDecodeError:
            return cls.of(body[:200].decode("utf-8", "replace"))

    @classmethod
    def of(cls, value: object) -> UpstreamErrorObject:
        """Read the error in an object, or in its field `error`."""
        error = _innermost(value)
        if not isinstance(error, dict):
            words = str(error)[:_MOST_MESSAGE]
            return cls(words, details=words)
        places = _places(error)
        message = _words(error)[:_MOST_MESSAGE]
        return cls(
            message=message,
            explained=_explanation(error.get("user_message")),
            code=_word(error.get("code")) or _word(error.get("error_type")),
            type=_word(error.get("type")),
            param=_word(error.get("param")) or (places[0] if places else None),
            status=_status(error),
            names=" ".join(word for name in _NAMING if (word := _name(error.get(name)))),
            details=" ".join(
                [message, *_all_words(error), *places, str(error.get("param") or "")[:_MOST_WORD]]
            ),
            retry_after=_retry_after(error, message),
        )


def error_in(chunk: object) -> object | None:
    """The error that a server sent instead of a chunk, or in its choice. None: it is a chunk.

    It is in `error` or MiniMax's `base_resp`, or it is the object itself: of an event `error`,
    vLLM's, Databricks', Baidu's.
    """
    if not isinstance(chunk, dict):
        return None
    if chunk.get("error") or _failed_base(chunk) is not None:
        return chunk
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("error"):
            return choice
    if choices or chunk.get("usage"):
        return None
    says_so = "error" in (chunk.get("object"), chunk.get("type")) or "detail" in chunk
    has_code = chunk.get("error_code", chunk.get("error_msg")) not in _NO_ERROR_CODES
    if says_so or has_code or "__type" in chunk:
        return chunk
    return chunk if isinstance(chunk.get("message"), str) and _names_an_error(chunk) else None


def _names_an_error(chunk: Mapping[str, Any]) -> bool:
    return _status(chunk) is not None or str(chunk.get("type", "")).lower().endswith("error")


def _failed_base(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """MiniMax's error, which has the status 0 in every good chunk."""
    base = value.get("base_resp")
    is_error = isinstance(base, dict) and base.get("status_code") not in _NO_ERROR_CODES
    return base if is_error else None


def _innermost(value: object) -> object:
    """The innermost error object, with the fields next to it."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return _innermost(value[0])  # Gemini's
    if not isinstance(value, dict):
        return value
    error = _nested(value)
    if isinstance(error, dict):
        outer = {name: value[name] for name in (*_NAMING, *_STATUSES, *_TIMES) if name in value}
        nested = _innermost(error) if isinstance(_nested(error), dict) else error
        return outer | nested if isinstance(nested, dict) else nested
    if isinstance(error, str) and error:
        return value | {"message": error}
    errors = value.get("errors")
    return errors[0] if isinstance(errors, list) and errors else value


def _nested(value: Mapping[str, Any]) -> object:
    """The error within an object: in `error`, in `base_resp`, or in a message that is JSON."""
    if error := value.get("error") or _failed_base(value):
        return error
    inner = _parsed(value.get("message"))
    return inner.get("error") if isinstance(inner, dict) else None


def _details(error: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The faults that FastAPI lists in `detail`, and Mistral in `message.detail`."""
    details = error.get("detail")
    inner = _parsed(error.get("message"))
    if isinstance(inner, dict):
        details = inner.get("detail", details)
    details = details if isinstance(details, list) else [details]
    return [entry for entry in details[:_MOST_DETAILS] if isinstance(entry, dict)]


def _parsed(message: object) -> object:
    """Parse a message that is JSON itself, as some gateways nest it."""
    if not isinstance(message, str) or not message.startswith("{"):
        return message
    try:
        return orjson.loads(message)
    except orjson.JSONDecodeError:
        return message


def _all_words(error: Mapping[str, Any]) -> list[str]:
    words = [str(error.get("code") or "")[:_MOST_WORD]]
    for fault in _details(error):
        words += [str(fault.get(name) or "")[:_MOST_WORD] for name in ("type", "msg")]
    return words


def _places(error: Mapping[str, Any]) -> list[str]:
    """The names of the wrong parameters. FastAPI has each in `loc`, after "body"."""
    places = []
    for holder in (error, *_details(error)):
        place = holder.get("loc")
        if isinstance(place, list) and (word := _word(".".join(map(str, place[1:])))):
            places.append(word)
    return places


def _explanation(words: object) -> str:
    """A server's words for readers: one line."""
    return " ".join(words.split())[:_MOST_EXPLANATION] if isinstance(words, str) else ""


def _words(error: Mapping[str, Any]) -> str:
    """The message. FastAPI has it in `detail`, or in the `msg` of the first of several."""
    message = next((value for name in _MESSAGES if (value := _parsed(error.get(name)))), None)
    first = message[0] if isinstance(message, list) and message else message
    if isinstance(first, dict):
        return _words(first)
    # Other fields may repeat the request, and with it an agent's instructions.
    return first if isinstance(first, str) else "it doesn't say why"


def _name(value: object) -> str | None:
    """A name of an error. Of numbers only those that say more than a status."""
    is_number = isinstance(value, int) and str(value) in _KINDS_BY_NUMBER
    return str(value) if is_number else _word(value)


def _word(value: object) -> str | None:
    """A short word for programs. None for numbers and sentences, which servers also send."""
    if (
        isinstance(value, str)
        and 0 < len(value) <= _MOST_WORD
        and value.isascii()
        and value.isprintable()
    ):
        return value
    return None


def _status(error: Mapping[str, Any]) -> int | None:
    """The HTTP status that an object names, as a number or as digits."""
    for name in _STATUSES:
        value = error.get(name)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) == 3:
            value = int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 400 <= value < 600:
            return int(value)
    return None


def _retry_after(error: Mapping[str, Any], message: str) -> float | None:
    """Seconds after which to retry: from a field, Google's `RetryInfo`, or the message."""
    for name, parts in (("retry_after_ms", 1000), ("retry_after", 1)):
        value = error.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return value / parts
    details = error.get("details")
    for detail in details if isinstance(details, list) else []:
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (seconds := seconds_of(delay)) is not None:
            return seconds
    match = _TRY_AGAIN.search(message)
    return None if match is None else seconds_of(match[1])


def seconds_of(duration: str) -> float | None:
    """Parse `6m0s`, `1.5s`, `20ms` or `31 seconds`. None for anything else."""
    pairs = _DURATION.findall(duration.lower())
    return sum(float(number) * _UNITS[unit] for number, unit in pairs) if pairs else None


def _kind_in(text: str) -> Busy | None:
    return next((kind for kind, pattern in _KINDS_BY_NAME if pattern.search(text)), None)
