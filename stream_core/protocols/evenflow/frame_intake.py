"""Counts the frames of one WebSocket, and joins fragments to messages, for every protocol."""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.stream_core.base.errors import EvenflowError, InvalidRequest, RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.token_bucket import TokenBucket
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode


@dataclass(frozen=True, slots=True)
class RejectedMessage:
    """A rejected message: the error, the message's type, and the ids that it named.

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
        """Whether a message of the conversation was rejected.

        A frame that wasn't understood is not a message yet, whatever ids it names.
        """
        return self.message_id is not None and not isinstance(self.error, InvalidRequest)


@dataclass(frozen=True, slots=True)
class Violation:
    """A breach of the protocol that ends the connection, with the close code and reason."""

    code: int
    reason: str


class FrameIntake:
    """Counts the frames, messages and errors of one connection, and joins fragments.

    Args:
        most_bytes: the largest message.
    """

    __slots__ = ("_fragments", "_frames", "_limits", "_messages", "_most_bytes", "_violations")

    def __init__(self, limits: Limits, most_bytes: int) -> None:
        self._limits = limits
        self._most_bytes = most_bytes
        self._fragments: bytearray | None = None
        # Most connections never send much, so the buckets are made when they are needed.
        self._frames: TokenBucket | None = None
        self._messages: TokenBucket | None = None
        self._violations: TokenBucket | None = None

    @property
    def waiting_bytes(self) -> int:
        """Bytes of a message that lacks its last fragment."""
        return 0 if self._fragments is None else len(self._fragments)

    def too_many_frames(self, now: float) -> bool:
        """Count a frame of any kind. Returns whether that is one too many."""
        if self._frames is None:
            rate = self._limits.most_frames_per_second
            self._frames = TokenBucket(rate, rate * 2, now)
        return self._frames.take(now) > 0

    def add_text(self, data: bytes, *, continues: bool, final: bool) -> bytes | Violation | None:
        """Add a frame of text. Returns the message once it is whole.

        Args:
            continues: whether it is a later fragment of its message.
            final: whether it is the last one.
        """
        if continues is (self._fragments is None):
            return Violation(CloseCode.PROTOCOL, "a fragmented message is out of order")
        if self._fragments is None:
            if final:
                return self._checked(data)
            self._fragments = bytearray()
        self._fragments += data
        if len(self._fragments) > self._most_bytes:
            return self._too_large()
        if not final:
            return None
        whole = bytes(self._fragments)
        self._fragments = None
        return self._checked(whole)

    def too_fast(self, now: float) -> RateLimited | None:
        """Count a message. Returns the error if it came too fast."""
        if self._messages is None:
            rate = self._limits.messages_per_second
            self._messages = TokenBucket(rate, rate * 2, now)
        wait = self._messages.take(now)
        if not wait:
            return None
        return RateLimited(
            "frames come too fast; this one was not acted upon, send it again later",
            code="rate_limited",
            retry_after_ms=int(wait * 1000) + 1,
        )

    def too_many_violations(self, now: float) -> bool:
        """Count a frame not understood or too fast. Returns whether that is one too many."""
        if self._violations is None:
            per_minute = self._limits.protocol_errors_per_minute
            self._violations = TokenBucket(per_minute / 60, per_minute, now)
        return self._violations.take(now) > 0

    def _checked(self, data: bytes) -> bytes | Violation:
        if len(data) > self._most_bytes:
            return self._too_large()
        try:
            data.decode()
        except UnicodeDecodeError:
            return Violation(CloseCode.INVALID_TEXT, "text frames must be UTF-8")
        return data

    def _too_large(self) -> Violation:
        return Violation(CloseCode.TOO_LARGE, f"a message may have {self._most_bytes} bytes")
