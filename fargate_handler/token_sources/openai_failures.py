"""Turns failures of an OpenAI-compatible server into Evenflow's errors for clients."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import orjson

from evenflow.fargate_handler.token_sources.model_refusals import refusal
from evenflow.fargate_handler.token_sources.operator_log import OperatorLog, not_set_up
from evenflow.stream_core.protocol.errors import (
    EvenflowError,
    InvalidRequest,
    Overloaded,
    RateLimited,
    UpstreamAnswered,
    UpstreamExplained,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamUnreadable,
)

_logger = logging.getLogger(__name__)

_CHECK = "check EVENFLOW_MODEL_URL, EVENFLOW_MODEL_NAME and EVENFLOW_MODEL_API_KEY"
_QUOTA = "insufficient_quota"
_REFUSED = (400, 413, 422)
_REFUSING = ("context_length_exceeded", "content_policy_violation")
# Any other status from 300 to 499 is for the operator: a wrong key, model, path or method.
_PASSING = (408, 409, 425, 429)
_BUSY = {
    429: ("upstream_throttled", RateLimited.type),
    503: ("upstream_overloaded", Overloaded.type),
}
# The codes that are passed on of servers that have too much to do.
_BUSY_CODES = frozenset(
    [
        "engine_overloaded", "model_overloaded", "overloaded", "rate_limit_exceeded",
        "requests_limit_exceeded", "server_overloaded", "slow_down", "tokens_limit_exceeded",
    ]
)  # fmt: skip
_MOST_MESSAGE = 1_000
_MOST_EXPLANATION = 500
_MOST_ADDRESS = 200
_MOST_WORD = 64
_LONGEST_RETRY_AFTER_MS = 86_400_000


class Failures:
    """The errors of one server. Those that the operator must mend are logged."""

    def __init__(self) -> None:
        self._operator = OperatorLog(_logger)

    def answered(self, status: int, headers: Mapping[str, str], body: bytes) -> EvenflowError:
        """The error for an answer with this status. The server's words are only logged."""
        said = _said(body)
        if said.explained and status in (*_REFUSED, 500):
            return self._explained(said)
        if status == 402 or (status == 429 and _QUOTA in (said.code, said.type)):
            return self._out_of_quota(said)
        if status in _REFUSED:
            return self._refused(said, status, f"the model's server refused a message ({status})")
        if 300 <= status < 400:
            return self._moved(status, headers)
        if 400 <= status < 500 and status not in _PASSING:
            return self.not_set_up(f"the model's server answered {status}", said.message)
        what = f"the model's server answered {status}"
        self._operator.warning(what, said.message)
        return _busy(said, status, f"{what}; ask again later", _retry_after_ms(headers))

    def in_stream(self, error: object) -> EvenflowError:
        """The error for an error object in the place of a chunk.

        The HTTP status was 200 by then. So the kind of error is in `code`, which may be a status,
        or in `type`.
        """
        said = _said_in(error)
        if said.explained:
            return self._explained(said)
        told = error.get("code") if isinstance(error, dict) else None
        what = "the model's server ended with an error"
        if told in _REFUSED or said.type == InvalidRequest.type or said.code in _REFUSING:
            return self._refused(said, told if told in _REFUSED else InvalidRequest.status, what)
        if _QUOTA in (said.code, said.type):
            return self._out_of_quota(said)
        self._operator.warning(what, said.message)
        message = f"{what}; what came before was kept"
        for status, (_, kind) in _BUSY.items():
            if told == status or said.type == kind:
                return _busy(said, status, message, None)
        return UpstreamFailed(message, code="upstream_failed")

    def unreadable(self, what: str, sample: str) -> UpstreamUnreadable:
        """The error for an event that can't be read.

        Args:
            what: what was sent, in our words.
            sample: its beginning, for the log.
        """
        said = f"the model's server sent {what}"
        self._operator.warning(f"{said}, and an answer ended there", sample)
        return UpstreamUnreadable(f"{said}; what came before was kept", code="upstream_failed")

    def left_out(self, what: str, sample: str) -> None:
        """Log that something of an answer was left out. The arguments are as of `unreadable`."""
        self._operator.warning(f"the model's server sent {what}, which was left out", sample)

    def not_set_up(self, what: str, said: str = "") -> UpstreamRejected:
        """The error for a server that refuses our configuration, in its words `said`."""
        self._operator.error(f"{what}: {_CHECK}", said)
        return not_set_up()

    def unreachable(self, error: Exception) -> None:
        """Log that no connection could be made."""
        self._operator.error(
            f"the model's server cannot be reached ({type(error).__name__}): check "
            "EVENFLOW_MODEL_URL"
        )

    def unasked(self) -> None:
        """Log that a server sent what nobody had asked for."""
        self._operator.error(
            "the model's server sent something that nobody had asked for, and that connection was "
            "cut; check the server, and any proxy before it"
        )

    def _refused(self, said: _Said, status: int, what: str) -> EvenflowError:
        self._operator.warning(what, said.message)
        return refusal(
            said.message, status=status, code=said.code, param=said.param, type=said.type
        )

    def _moved(self, status: int, headers: Mapping[str, str]) -> UpstreamRejected:
        where = headers.get("Location", "no address")[:_MOST_ADDRESS]
        return self.not_set_up(
            f"the model's server answered {status} and points to {where}, where the prompt and "
            "the key were not sent; if it has moved, set EVENFLOW_MODEL_URL to where it is"
        )

    def _out_of_quota(self, said: _Said) -> UpstreamRejected:
        what = f"the model's server says that there is no quota left ({said.message[:200]})"
        self._operator.error(f"{what}: check its account")
        return UpstreamRejected(
            "the quota that this server has at its model is used up; nothing was generated",
            code=_QUOTA,
            status=429,
            type=RateLimited.type,
        )

    def _explained(self, said: _Said) -> UpstreamExplained:
        self._operator.warning("the model's server ended with an error", said.message)
        return UpstreamExplained(said.explained, code="upstream_explained")


def told_in(error: object) -> str:
    """The message of an OpenAI-style error."""
    return _said_in(error).message


def _busy(said: _Said, status: int, message: str, retry_after_ms: int | None) -> UpstreamAnswered:
    if status not in _BUSY:
        return UpstreamAnswered(
            message, code="upstream_failed", status=502, retry_after_ms=retry_after_ms
        )
    code, kind = _BUSY[status]
    if said.code in _BUSY_CODES:
        code = said.code
    return UpstreamAnswered(
        message, code=code, status=status, type=kind, retry_after_ms=retry_after_ms
    )


class _Said(NamedTuple):
    message: str
    explained: str = ""
    code: str | None = None
    type: str | None = None
    param: str | None = None


def _said(body: bytes) -> _Said:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = body[:200].decode("utf-8", "replace")
    return _said_in(answer.get("error", answer) if isinstance(answer, dict) else answer)


def _said_in(error: object) -> _Said:
    if not isinstance(error, dict):
        return _Said(str(error)[:_MOST_MESSAGE])
    return _Said(
        message=_words(error)[:_MOST_MESSAGE],
        explained=_explanation(error.get("user_message")),
        code=_word(error.get("code")),
        type=_word(error.get("type")),
        param=_word(error.get("param")) or _place(error),
    )


def _explanation(words: object) -> str:
    """A server's words for readers: one line."""
    return " ".join(words.split())[:_MOST_EXPLANATION] if isinstance(words, str) else ""


def _words(error: dict[str, Any]) -> str:
    """The message. FastAPI has it in `detail`, or in the `msg` of the first of several."""
    found = error.get("message") or error.get("detail") or error.get("msg")
    first = found[0] if isinstance(found, list) and found else found
    if isinstance(first, dict):
        return _words(first)
    # Other fields may repeat the request, and with it an agent's instructions.
    return first if isinstance(first, str) else "it doesn't say why"


def _place(error: dict[str, Any]) -> str | None:
    """The wrong parameter. FastAPI has it in `loc`, behind "body"."""
    found = error.get("detail")
    first = found[0] if isinstance(found, list) and found else error
    place = first.get("loc") if isinstance(first, dict) else None
    return _word(".".join(map(str, place[1:]))) if isinstance(place, list) else None


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


def _retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """When to try again, in milliseconds. Servers send milliseconds, seconds or a date."""
    seconds = _seconds(headers.get("retry-after-ms"), 1000) or _seconds(
        headers.get("retry-after"), 1
    )
    if seconds is None and (date := headers.get("retry-after")):
        try:
            seconds = (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    return None if seconds is None else int(min(max(0.0, seconds * 1000), _LONGEST_RETRY_AFTER_MS))


def _seconds(text: str | None, parts: int) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value / parts if 0 <= value < float("inf") else None
