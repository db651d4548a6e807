"""One session's messages: which come in order, which came before, and what the model should know of them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from stream_core.errors import Conflict, RateLimited
from stream_core.limits import Limits
from stream_core.session_store import StoredConversation
from stream_core.token_bucket import TokenBucket


@dataclass(frozen=True, slots=True)
class Turn:
    """One line of a conversation; `role` is `user` or `assistant`."""

    role: str
    text: str


class Conversation:
    """The messages of one session, in causal order, each accepted once.

    Args:
        limits: those in force.
        now: seconds on a monotonic clock, like every `now` here.
    """

    __slots__ = (
        "_bucket",
        "_history",
        "_history_bytes",
        "_limits",
        "_responses",
        "in_flight",
        "last_message_id",
        "used_at",
    )

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._bucket = TokenBucket(limits.messages_per_second, limits.messages_per_second * 2, now)
        self._responses: OrderedDict[str, str] = OrderedDict()
        self._history: list[Turn] = []
        self._history_bytes = 0
        self.last_message_id: str | None = None
        self.in_flight = 0
        """Accepted messages whose response has not ended."""
        self.used_at = now

    def known_response(self, message_id: str) -> str | None:
        """The response of a message that was accepted before, if it was."""
        return self._responses.get(message_id)

    def check(self, message_id: str, previous_message_id: str | None, now: float) -> None:
        """Whether a new message may come now; it changes nothing but the rate.

        Raises:
            Conflict: it does not follow the session's last message.
            RateLimited: too many at once, or too fast.
        """
        if previous_message_id != self.last_message_id:
            expected = "null" if self.last_message_id is None else repr(self.last_message_id)
            raise Conflict(
                f"message {message_id!r} names previous_message_id {previous_message_id!r}, but this session's last message "
                f"is {expected}; nothing was accepted, send it again behind that one",
                code="causal_violation",
                param="previous_message_id",
                expected=self.last_message_id,
            )
        if self.in_flight >= self._limits.messages_in_flight_per_session:
            raise RateLimited(
                f"{self.in_flight} messages of this session are being answered; the message was not accepted, "
                "send it again when one has ended",
                code="session_in_flight",
                retry_after_ms=1000,
            )
        wait = self._bucket.take(now)
        if wait:
            raise RateLimited(
                "messages come too fast; this one was not accepted, send it again later",
                code="rate_limited",
                retry_after_ms=int(wait * 1000) + 1,
            )

    def catch_up(self, stored: StoredConversation) -> None:
        """Take over what the store knows: other tasks may have accepted messages of this session."""
        self._history.clear()
        self._history_bytes = 0
        for entry in stored.entries:
            self._know(entry.message_id, entry.response_id)
            self._remember(Turn("user", entry.text))
            if entry.answer:
                self._remember(Turn("assistant", entry.answer))
        self.last_message_id = stored.last_message_id

    def accept(self, message_id: str, response_id: str, text: str, now: float) -> tuple[Turn, ...]:
        """Take the message in and return what the model should see: the history and this message."""
        self._know(message_id, response_id)
        self.last_message_id = message_id
        self.in_flight += 1
        self.used_at = now
        turn = Turn("user", text)
        self._remember(turn)
        # The newest message is always sent, however long it is.
        return tuple(self._history) or (turn,)

    def response_ended(self, text: str, now: float) -> None:
        """A response has ended with `text` (empty when there is none to remember)."""
        self.in_flight -= 1
        self.used_at = now
        if text:
            self._remember(Turn("assistant", text))

    def _know(self, message_id: str, response_id: str) -> None:
        self._responses[message_id] = response_id
        if len(self._responses) > self._limits.messages_remembered_per_session:
            self._responses.popitem(last=False)

    def _remember(self, turn: Turn) -> None:
        self._history.append(turn)
        self._history_bytes += len(turn.text.encode())
        while self._history and (self._history_bytes > self._limits.history_bytes or self._history[0].role != "user"):
            self._history_bytes -= len(self._history.pop(0).text.encode())
