"""Reads the text messages of a client, and refuses those that are wrong or too fast."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from evenflow.stream_core.policy.limits import Limits
from evenflow.stream_core.policy.token_bucket import TokenBucket
from evenflow.stream_core.protocol.dialect import Dialect
from evenflow.stream_core.protocol.ending_frames import CloseCode, ids_of
from evenflow.stream_core.protocol.errors import EvenflowError, InvalidRequest, RateLimited
from evenflow.stream_core.protocol.messages import (
    CLIENT_TYPES,
    LONGEST_IDENTIFIER,
    ChatMessageFrame,
    ClientMessage,
    ResponseAck,
    ResponseCredit,
    ResponseResume,
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused frame: the error, the frame's type, and the ids that it named.

    Args:
        what: its type; `frame` where it has none that is known.
        is_violation: whether it wasn't understood or came too fast. Too many of these end the
            connection.
    """

    error: EvenflowError
    what: str = "frame"
    message_id: str | None = None
    response_id: str | None = None
    is_violation: bool = True

    @property
    def is_message(self) -> bool:
        """Whether a message of the conversation was refused.

        A frame that wasn't understood is not a message yet, whatever ids it names.
        """
        return self.message_id is not None and not isinstance(self.error, InvalidRequest)


@dataclass(frozen=True, slots=True)
class Violation:
    """A breach of the protocol that ends the connection, with the close code and reason."""

    code: int
    reason: str


class MessageIntake:
    """Counts the frames of one connection, and reads its messages."""

    __slots__ = ("_dialect", "_frames", "_limits", "_messages", "_violations")

    def __init__(self, dialect: Dialect, limits: Limits) -> None:
        self._dialect = dialect
        self._limits = limits
        # Most connections never send much, so the buckets are made when they are needed.
        self._frames: TokenBucket | None = None
        self._messages: TokenBucket | None = None
        self._violations: TokenBucket | None = None

    def too_many_frames(self, now: float) -> bool:
        """Count a frame of any kind. Returns whether that is one too many."""
        if self._frames is None:
            rate = self._limits.most_frames_per_second
            self._frames = TokenBucket(rate, rate * 2, now)
        return self._frames.take(now) > 0

    def take(self, data: bytes, now: float) -> ClientMessage | Refusal | Violation:
        """Read a whole message, and check that it may come now."""
        if len(data) > self._limits.message_bytes:
            return self.too_large()
        try:
            data.decode()
        except UnicodeDecodeError:
            return Violation(CloseCode.INVALID_TEXT, "text frames must be UTF-8")
        try:
            message = self._dialect.read(data)
            self._check_credit(message)
        except InvalidRequest as error:
            return self._not_understood(data, error)
        if isinstance(message, ResponseAck):
            # It asks for nothing, and a slow line delivers those of many seconds at once. It counts
            # as a frame.
            return message
        return self._too_fast(message, now) or message

    def too_large(self) -> Violation:
        """The violation for a message that is too large."""
        return Violation(
            CloseCode.TOO_LARGE, f"a message may have {self._limits.message_bytes} bytes"
        )

    def too_many_violations(self, now: float) -> bool:
        """Count a frame not understood or too fast. Returns whether that is one too many."""
        if self._violations is None:
            per_minute = self._limits.protocol_errors_per_minute
            self._violations = TokenBucket(per_minute / 60, per_minute, now)
        return self._violations.take(now) > 0

    def _check_credit(self, message: ClientMessage) -> None:
        """Check credit before a message is accepted or a response is looked for."""
        if isinstance(message, ResponseCredit):
            credit, param = message.n, "n"
        elif isinstance(message, ChatMessageFrame | ResponseResume) and message.credit is not None:
            credit, param = message.credit, "credit"
        else:
            return
        most = self._limits.credit_window
        if credit > most:
            raise InvalidRequest(
                f"{param}: at most {most} entries may be granted ahead; nothing was changed",
                code="invalid_field",
                param=param,
            )

    def _too_fast(self, message: ClientMessage, now: float) -> Refusal | None:
        if self._messages is None:
            rate = self._limits.messages_per_second
            self._messages = TokenBucket(rate, rate * 2, now)
        wait = self._messages.take(now)
        if not wait:
            return None
        error = RateLimited(
            "frames come too fast; this one was not acted upon, send it again later",
            code="rate_limited",
            retry_after_ms=int(wait * 1000) + 1,
        )
        return Refusal(error, message.type, *ids_of(message))

    def _not_understood(self, data: bytes, error: InvalidRequest) -> Refusal:
        """The refusal, with the ids that the frame names, so that its sender knows which it was."""
        try:
            frame = orjson.loads(data)
        except orjson.JSONDecodeError:
            frame = None
        if not isinstance(frame, dict):
            return Refusal(error)
        return Refusal(
            error,
            _type(frame.get("type")),
            _id(frame.get(self._dialect.message_field)),
            _id(frame.get("response_id")),
        )


def _type(value: object) -> str:
    """The type of a frame, for the log: what is none may be a text of its user's."""
    return value if isinstance(value, str) and value in CLIENT_TYPES else "frame"


def _id(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= LONGEST_IDENTIFIER else None
