"""Turns failures of an OpenAI-compatible server into Evenflow's errors for clients."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

from evenflow.fargate_handler.token_sources.error_objects import (
    Busy,
    UpstreamErrorObject,
    seconds_of,
)
from evenflow.fargate_handler.token_sources.model_refusals import refusal
from evenflow.fargate_handler.token_sources.operator_log import OperatorLog, not_set_up
from evenflow.fargate_handler.token_sources.server_profile import rejected_parameters
from evenflow.stream_core.base.errors import (
    EvenflowError,
    InvalidRequest,
    Overloaded,
    RateLimited,
    UpstreamAnswered,
    UpstreamExplained,
    UpstreamRejected,
    UpstreamUnreadable,
)

_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|h|m|s))+")
# Longer times in headers are cut to this, since clients would wait for a wrong header.
_LONGEST_SECONDS = 60.0
# Headers with the remaining quota and its reset: of OpenAI, Anthropic and many gateways.
_RESETS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
)
# From here on a number is a Unix time, in seconds or in milliseconds; below, a duration.
_FIRST_MOMENT, _FIRST_MOMENT_MS = 1e9, 1e12
_DATES: tuple[Callable[[str], datetime], ...] = (parsedate_to_datetime, datetime.fromisoformat)


def quota_used_for(headers: Mapping[str, str]) -> float:
    """The seconds until quota is left again. 0: there is some, or it is unknown."""
    return max(_used_for(headers, kind) for kind in ("requests", "tokens"))


def _used_for(headers: Mapping[str, str], kind: str) -> float:
    if headers.get(f"x-ratelimit-remaining-{kind}") != "0":
        return 0.0
    duration = headers.get(f"x-ratelimit-reset-{kind}", "")
    seconds = seconds_of(duration) if _DURATION.fullmatch(duration) else None
    return min(_LONGEST_SECONDS, seconds or 0.0)


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Seconds until a server that rejected a call accepts one. None: its headers don't say.

    Servers send milliseconds, seconds or a date. Some send only the time when their quota resets.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after")
    if (seconds := _number(header)) is not None:
        return seconds
    if header is not None and (
        seconds := _until_date(header)
    ):  # a date in the past has no information
        return seconds
    resets = [
        seconds
        for remaining, reset in _RESETS
        if headers.get(remaining, "0") == "0"
        and (seconds := _until_reset(headers.get(reset))) is not None
    ]
    return min(_LONGEST_SECONDS, max(resets)) if resets else None


def _until_reset(text: str | None) -> float | None:
    """Seconds until a reset, which is a duration, a number of seconds, or a time."""
    if not text:
        return None
    if _DURATION.fullmatch(text):
        return seconds_of(text)
    number = _number(text)
    if number is None:
        return _until_date(text)
    if number < _FIRST_MOMENT:
        return number
    moment = number / 1000 if number >= _FIRST_MOMENT_MS else number
    return max(0.0, moment - datetime.now(UTC).timestamp())


def _until_date(text: str) -> float | None:
    """Seconds until a date of HTTP or ISO 8601. None: it is no date."""
    for parse in _DATES:
        try:
            return max(0.0, (parse(text) - datetime.now(UTC)).total_seconds())
        except (TypeError, ValueError):
            continue
    return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if value >= 0 and isfinite(value) else None


_logger = logging.getLogger(__name__)

_CHECK = "check EVENFLOW_MODEL_URL, EVENFLOW_MODEL_NAME and EVENFLOW_MODEL_API_KEY"
_REFUSED = (400, 413, 422)
_POLICY = "content_policy_violation"
_REFUSING = ("context_length_exceeded", _POLICY)
# Any other status from 300 to 499 is for the operator: a wrong key, model, path or method.
_PASSING = (408, 409, 425, 429)
_FORBIDDEN = 403
# Part of Python's message about an argument that a function lacks.
_UNKNOWN_ARGUMENT = "nexpected keyword argument"
_TOO_LARGE = 413
# A 503 without a reason may come from a proxy, since the server is down.
_UNCLEAR = 503
# 498: Groq's flex tier is full. 529: Anthropic is overloaded.
_BUSY_STATUSES = {
    402: Busy.NO_QUOTA,
    429: Busy.THROTTLED,
    498: Busy.OVERLOADED,
    503: Busy.OVERLOADED,
    529: Busy.OVERLOADED,
}
# Upstream overload codes that are passed through to the client.
_BUSY_CODES = frozenset(
    [
        "engine_overloaded", "model_overloaded", "overloaded", "rate_limit_exceeded",
        "requests_limit_exceeded", "server_overloaded", "slow_down", "tokens_limit_exceeded",
    ]
)  # fmt: skip
# Waiting does not help: the request has more tokens than the quota of a minute.
_ALWAYS_REFUSED = re.compile(r"request (?:is )?too large|tokens must be reduced", re.IGNORECASE)
_MOST_ADDRESS = 200
_LONGEST_RETRY_AFTER_MS = 86_400_000


class Failures:
    """The errors of one server. Those that the operator must mend are logged."""

    def __init__(self) -> None:
        self._operator = OperatorLog(_logger)

    def answered(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
        sent_names: frozenset[str] = frozenset(),
    ) -> EvenflowError:
        """The error for an answer with this status. The server's words are only logged.

        Args:
            sent: the names of the parameters in the request.
        """
        error = UpstreamErrorObject.of_body(body)
        if error.explained and status in (*_REFUSED, 500):
            return self._explained(error)
        what = f"the model's server answered {status}"
        busy = _busy_by_status(status, error)
        seconds = retry_after_of(headers)
        seconds = error.retry_after if seconds is None else seconds
        if busy is not None:
            is_clear = status != _UNCLEAR or (error.busy or error.busy_by_words) is not None
            return self._busy(busy, error, f"{what}; ask again later", seconds, is_clear=is_clear)
        unknown = _unknown_parameters(status, error)
        if status in _REFUSED or unknown or (status == _FORBIDDEN and error.is_flagged):
            what = f"the model's server refused a message ({status})"
            return self._reject_message(error, status, what, unknown, sent_names)
        if 300 <= status < 400:
            return self._moved(status, headers)
        if 400 <= status < 500 and status not in _PASSING:
            return self.not_set_up(what, error.message)
        self._operator.warning(what, error.message)
        return _failed(f"{what}; ask again later", seconds)

    def in_stream(
        self, error_value: object, headers: Mapping[str, str] | None = None
    ) -> EvenflowError:
        """The error for an error object in the place of a chunk.

        The HTTP status was 200. So the kind of error must be read from the object: from a code, a
        type, a status, or only its words.

        Args:
            error_value: the object, or the chunk that has it as `error_value`.
            headers: of the answer. They may say when to ask again, where the object doesn't.
        """
        error = UpstreamErrorObject.of(error_value)
        if error.explained:
            return self._explained(error)
        what = "the model's server ended with an error"
        message = f"{what}; what came before was kept"
        busy = error.busy or _BUSY_STATUSES.get(error.status or 0) or error.busy_by_first_words
        is_rejected = error.status in _REFUSED or error.type == InvalidRequest.type
        is_rejected = is_rejected or (error.status == _FORBIDDEN and error.is_flagged)
        if busy is None and (is_rejected or error.code in _REFUSING):
            return self._reject_message(error, error.status, what)
        if (busy := busy or error.busy_by_words) is not None:
            seconds = error.retry_after
            seconds = retry_after_of(headers or {}) if seconds is None else seconds
            return self._busy(busy, error, message, seconds)
        self._operator.warning(what, error.message)
        return _failed(message, error.retry_after)

    def unreadable(self, what: str, sample: str) -> UpstreamUnreadable:
        """The error for an event that can't be read.

        Args:
            what: what was sent, in our words.
            sample: its beginning, for the log.
        """
        line = f"the model's server sent {what}"
        self._operator.warning(f"{line}, and an answer ended there", sample)
        return UpstreamUnreadable(f"{line}; what came before was kept", code="upstream_failed")

    def left_out(self, what: str, sample: str) -> None:
        """Log that something of an answer was left out. The arguments are as of `unreadable`."""
        self._operator.warning(f"the model's server sent {what}, which was left out", sample)

    def unknown_end(self, reason: str) -> None:
        """Log that an answer ended with an unknown finish reason, which became `stop`."""
        self._operator.warning(
            "the model's server ended an answer with an unknown finish reason, which became `stop`",
            reason,
        )

    def not_set_up(self, what: str, server_message: str = "") -> UpstreamRejected:
        """The error for a server that rejects our configuration."""
        self._operator.error(f"{what}: {_CHECK}", server_message)
        return not_set_up()

    def unreachable(self, error: Exception) -> None:
        """Log that no connection could be made."""
        self._operator.error(
            f"the model's server cannot be reached ({type(error).__name__}): check "
            "EVENFLOW_MODEL_URL, and HTTPS_PROXY or HTTP_PROXY where one is set"
        )

    def unsolicited(self) -> None:
        """Log that a server sent data without a request."""
        self._operator.error(
            "the model's server sent something that nobody had asked for, and that connection was "
            "cut; check the server, and any proxy before it"
        )

    def _reject_message(
        self,
        error: UpstreamErrorObject,
        status: int | None,
        what: str,
        unknown: frozenset[str] = frozenset(),
        sent_names: frozenset[str] = frozenset(),
    ) -> EvenflowError:
        self._operator.warning(what, error.message)
        return refusal(
            error.message,
            status=status if status in _REFUSED else InvalidRequest.status,
            code=error.code or (_POLICY if error.is_flagged else None),
            param=error.param,
            type=error.type,
            unknown=unknown,
            sent_names=sent_names,
        )

    def _moved(self, status: int, headers: Mapping[str, str]) -> UpstreamRejected:
        where = headers.get("Location", "no address")[:_MOST_ADDRESS]
        return self.not_set_up(
            f"the model's server answered {status} and points to {where}, where the prompt and "
            "the key were not sent; if it has moved, set EVENFLOW_MODEL_URL to where it is"
        )

    def _busy(
        self,
        busy: Busy,
        error: UpstreamErrorObject,
        message: str,
        seconds: float | None,
        *,
        is_clear: bool = True,
    ) -> EvenflowError:
        """The error for a working server that rejects calls now.

        Args:
            seconds: until it accepts calls again. None: unknown.
            is_clear: whether the server itself reports that it is busy.
        """
        if busy is Busy.NO_QUOTA:
            return self._out_of_quota(error)
        self._operator.warning(message.partition(";")[0], error.message)
        kind: type[EvenflowError] = RateLimited
        code = "upstream_throttled"
        if busy is Busy.OVERLOADED:
            kind, code = Overloaded, "overloaded" if is_clear else "upstream_overloaded"
        is_lasting = busy is Busy.THROTTLED and _ALWAYS_REFUSED.search(error.message) is not None
        if is_lasting:
            message = "the request is larger than the quota of the model's server; send less"
        exception = UpstreamRejected if is_lasting else UpstreamAnswered
        return exception(
            message,
            code=error.code if error.code in _BUSY_CODES else code,
            status=kind.status,
            type=kind.type,
            retry_after_ms=_milliseconds(seconds),
        )

    def _out_of_quota(self, error: UpstreamErrorObject) -> UpstreamRejected:
        what = f"the model's server says that there is no quota left ({error.message[:200]})"
        self._operator.error(f"{what}: check its account")
        return UpstreamRejected(
            "the quota that this server has at its model is used up; nothing was generated",
            code="insufficient_quota",
            status=RateLimited.status,
            type=RateLimited.type,
        )

    def _explained(self, error: UpstreamErrorObject) -> UpstreamExplained:
        self._operator.warning("the model's server ended with an error", error.message)
        return UpstreamExplained(error.explained, code="upstream_explained")


def message_of(value: object) -> str:
    """The message of an OpenAI-style error."""
    return UpstreamErrorObject.of(value).message


def _busy_by_status(status: int, error: UpstreamErrorObject) -> Busy | None:
    """Why the server rejects calls now. None: it is another error."""
    busy = error.busy
    if status == RateLimited.status:
        is_used_up = Busy.NO_QUOTA in (busy, error.busy_by_first_words)
        return Busy.NO_QUOTA if is_used_up else Busy.THROTTLED
    if status < 400 or status == _TOO_LARGE:
        return None  # waiting does not make a request smaller, whatever code the server sends
    stated = _BUSY_STATUSES.get(status) or _BUSY_STATUSES.get(error.status or 0)
    if status in (InvalidRequest.status, _FORBIDDEN):
        return busy or stated or error.busy_by_first_words
    return busy or stated or (error.busy_by_words if status >= 500 else None)


def _unknown_parameters(status: int, error: UpstreamErrorObject) -> frozenset[str]:
    """The parameters that Evenflow may leave out or rename. Servers in Python may fail with 500."""
    if status in _REFUSED or (status == 500 and _UNKNOWN_ARGUMENT in error.message):
        return rejected_parameters(error.details, error.param)
    return frozenset()


def _failed(message: str, seconds: float | None) -> UpstreamAnswered:
    return UpstreamAnswered(
        message, code="upstream_failed", status=502, retry_after_ms=_milliseconds(seconds)
    )


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(min(seconds * 1000, _LONGEST_RETRY_AFTER_MS))
