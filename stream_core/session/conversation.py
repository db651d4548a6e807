"""The messages of one session: their order, and the history that the model receives.

One version of a conversation is in memory: that of the last message, or the one that the next
message continues.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenflow.stream_core.base.errors import Conflict, InvalidRequest, RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_account import MemoryPart
from evenflow.stream_core.bounds.memory_bound import (
    CONVERSATION_BYTES,
    EXCHANGE_BYTES,
    MESSAGE_BYTES,
)
from evenflow.stream_core.bounds.token_bucket import TokenBucket
from evenflow.stream_core.stores.conversation_tree import ConversationTree
from evenflow.stream_core.stores.session_store import StoredConversation


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool. `arguments` is the model's text, usually JSON.

    `extra` has further fields of the call, unchanged, in the form of chat completions.
    """

    id: str
    name: str
    arguments: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """One line of a conversation. In a chat, `role` is `user` or `assistant`.

    A request that brings its conversation may also have other roles: `system`, `tool` for the
    result of the call `tool_call_id`, and `function`, the older name of `tool`.

    Args:
        text: its text. If it has `parts`, the text among them (`text_of_parts`).
        tool_calls: the calls in an assistant's turn.
        parts: the message's parts in the format of OpenAI's API, if they are more than text.
        extra: further fields of the message, unchanged.
    """

    role: str
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    parts: tuple[dict[str, Any], ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


def text_of_parts(parts: Iterable[Mapping[str, Any]]) -> str:
    """The text of a message that consists of parts. Images and the like add nothing."""
    return "".join(part["text"] for part in parts if part["type"] == "text")


_FEWEST_EXCHANGES = 2


@dataclass(slots=True)
class _Exchange:
    """A message and its answer. The answer is empty until there is one."""

    # UTF-8: one emoji would make each character of a `str` four bytes.
    question: bytes
    answer: tuple[bytes, ...] = ()  # the same pieces as the ended response

    @property
    def size(self) -> int:
        return len(self.question) + sum(map(len, self.answer))


class Conversation:
    """The messages of one session, in causal order, each accepted once.

    Args:
        limits: the limits in force.
        now: seconds on a monotonic clock, as every `now` of this class.
        memory: counts its bytes until `release_memory`.
        keeps_history: False if the model receives each message alone.
    """

    __slots__ = (
        "_bucket",
        "_counted",
        "_exchanges",
        "_exchanges_bytes",
        "_history_bytes",
        "_lacks_rest",
        "_limits",
        "_memory",
        "_other_versions",
        "_responses",
        "_version_length",
        "in_flight",
        "is_stale",
        "last_message_id",
        "used_at",
    )

    def __init__(
        self, limits: Limits, now: float, memory: MemoryPart, *, keeps_history: bool = True
    ) -> None:
        self._limits = limits
        self._memory = memory
        self._counted = 0
        self._history_bytes = limits.history_bytes if keeps_history else 0
        self._bucket = TokenBucket(limits.messages_per_second, limits.messages_per_second * 2, now)
        self._responses: OrderedDict[str, str] = OrderedDict()
        self._other_versions: set[str] = set()  # messages that are only in other versions
        self._version_length = 0  # messages of this version, also those no longer in memory
        self._exchanges: OrderedDict[str, _Exchange] = OrderedDict()
        self._exchanges_bytes = 0
        self._lacks_rest = False  # whether messages behind the one to replace are missing
        self.last_message_id: str | None = None
        self.in_flight = 0
        """Accepted messages whose response has not ended, of all sessions under its limits."""
        self.is_stale = True
        """Whether to load it from the store: not loaded yet, or with unfinished answers."""
        self.used_at = now
        self._count()

    def release_memory(self) -> None:
        """Stop counting its memory: it was dropped."""
        self._memory.bytes -= self._counted
        self._counted = 0

    def known_response(self, message_id: str) -> str | None:
        """The id of the response to an accepted message. None: it was not accepted."""
        return self._responses.get(message_id)

    def is_in_version(self, message_id: str | None) -> bool:
        """Whether the version in memory has this message. None: the place before the first."""
        return message_id is None or (
            message_id in self._responses and message_id not in self._other_versions
        )

    def needs_ledger(self, behind: str | None, replaces: str | None = None) -> bool:
        """Whether the next message needs more of the ledger than is in memory.

        Args:
            behind: a message of the version that it continues.
            replaces: as in `accept`.
        """
        if not self.is_in_version(behind):
            return True
        # If the conversation becomes shorter, older messages may fit.
        return self._lacks_rest if replaces is None else self._version_length > len(self._exchanges)

    def history_sizes(self, size: int, replaces: str | None = None) -> list[int]:
        """The bytes of each turn of the history that the model receives with the next message.

        Args:
            size: the bytes of that message.
            replaces: the message that it replaces.
        """
        room = self._history_bytes - size
        stays = replaces is None or replaces not in self._exchanges
        if not self._history_bytes:
            return []
        sizes: list[int] = []
        for message_id, exchange in reversed(self._exchanges.items()):
            if not stays:
                stays = message_id == replaces
                continue
            room -= exchange.size
            if room < 0 and sizes:
                break
            sizes.append(len(exchange.question))
            if exchange.answer:
                sizes.append(sum(map(len, exchange.answer)))
        return sizes

    def check_rate(self, now: float) -> None:
        """Check the rate of messages. Every message counts, also one that is rejected later.

        Raises:
            RateLimited: too many messages in a second.
        """
        wait = self._bucket.take(now)
        if wait:
            raise RateLimited(
                "messages come too fast; this one was not accepted, send it again later",
                code="rate_limited",
                retry_after_ms=int(wait * 1000) + 1,
            )

    def check(
        self,
        message_id: str,
        previous_message_id: str | None,
        replaces: str | None = None,
        parent_message_id: str | None = None,
    ) -> None:
        """Check the place of a new message in the conversation. It changes nothing.

        Raises:
            Conflict: the message does not follow the session's last one.
            InvalidRequest: it replaces a message that is not in the conversation, or continues one
                that is not the last of a version.
        """
        if previous_message_id != self.last_message_id:
            expected = "null" if self.last_message_id is None else repr(self.last_message_id)
            raise Conflict(
                f"message {message_id!r} names previous_message_id {previous_message_id!r}, but "
                f"this session's last message is {expected}; nothing was accepted, send it again "
                "behind that one",
                code="causal_violation",
                param="previous_message_id",
                expected=self.last_message_id,
            )
        if not self.is_in_version(replaces):
            raise InvalidRequest(
                f"message {message_id!r} is to replace {replaces!r}, which is not in this "
                "conversation, or no longer; nothing was accepted, send it again with the id of a "
                "message that is, or without `replaces`",
                code="invalid_request",
                param="replaces",
            )
        goes_on = replaces is None and parent_message_id == self._last_of_version
        if parent_message_id is not None and not goes_on:
            raise InvalidRequest(
                f"message {message_id!r} names parent_message_id {parent_message_id!r}, which is "
                "not the last message of a version of this conversation, or comes with "
                "`replaces`; nothing was accepted, send it again with the id of one that is, or "
                "with `replaces` alone",
                code="invalid_request",
                param="parent_message_id",
            )

    def check_in_flight(self) -> None:
        """Check the limit of answers at once.

        Raises:
            RateLimited: too many messages of this session are being answered.
        """
        if self.in_flight >= self._limits.messages_in_flight_per_session:
            raise RateLimited(
                f"{self.in_flight} messages of this session are being answered; the message was "
                "not accepted, send it again when one has ended",
                code="session_in_flight",
                retry_after_ms=1000,
            )

    def catch_up(
        self,
        stored: StoredConversation,
        owner: str,
        through: str | None = None,
        replaces: str | None = None,
    ) -> None:
        """Take over the store's state. Nodes other than `owner` may have accepted messages.

        Args:
            through: a message of the wanted version. None, or an unknown one: the newest version.
            replaces: the message to be replaced. Only earlier messages are loaded.
        """
        known, self._exchanges = self._exchanges, OrderedDict()
        self._exchanges_bytes = 0
        tree = ConversationTree(entry.link for entry in stored.messages)
        version = set(tree.path_through(through) or tree.path_through(stored.last_message_id))
        in_version = [entry for entry in stored.messages if entry.message_id in version]
        self._version_length = len(in_version)
        for entry in stored.messages:
            self._know(entry.message_id, entry.response_id)
            if entry.message_id not in version:
                self._other_versions.add(entry.message_id)
        self._other_versions -= version
        self._other_versions &= self._responses.keys()
        self._lacks_rest = replaces in version
        for entry in in_version:
            if entry.message_id == replaces:
                break
            if entry.text_name is not None:
                # A large text is a request that brings its conversation: it is no history.
                continue
            # The store may not have this node's newest answers yet.
            ours = known.get(entry.message_id)
            answer = (entry.answer.encode(),) if entry.answer else (ours.answer if ours else ())
            self._remember(entry.message_id, _Exchange(entry.text.encode(), answer))
        self.last_message_id = stored.last_message_id
        self.is_stale = any(not entry.ended and entry.owner != owner for entry in stored.messages)
        self._count()

    def begin_accepted(
        self, message_id: str, text: str | None, stored: StoredConversation
    ) -> tuple[Turn, ...]:
        """Begin the answer to a message that was accepted before.

        Args:
            text: as in `accept`.
            stored: the stored conversation: the message may be in another version.

        Returns:
            The turns that the model receives.
        """
        self.in_flight += 1
        if text is None:
            return ()
        if message_id in self._other_versions:
            version = Conversation(self._limits, self.used_at, MemoryPart(0))
            version.catch_up(stored, "", message_id)
            return version.begin_accepted(message_id, text, stored)
        turns = tuple(self._turns(until=message_id)) if message_id in self._exchanges else ()
        return turns or (Turn("user", text),)

    def accept(
        self,
        message_id: str,
        response_id: str,
        text: str | None,
        now: float,
        replaces: str | None = None,
    ) -> tuple[Turn, ...]:
        """Add a message to the version in memory, which becomes the newest one.

        Args:
            text: None for a request that brings its own conversation. It is no history.
            replaces: the message that it replaces. That and all later ones leave the version.

        Returns:
            The turns that the model receives: the history, then this message. Without `text` none.
        """
        self._lacks_rest = False
        if replaces is not None:
            self._replace_from(replaces)
        self._know(message_id, response_id)
        self._version_length += 1
        self.last_message_id = message_id
        self.used_at = now
        self.in_flight += 1
        if text is None:
            self._count()
            return ()
        self._remember(message_id, _Exchange(text.encode()))
        self._count()
        # The model always receives the newest message, however long it is.
        return tuple(self._turns()) or (Turn("user", text),)

    def left_out(self, turns: Iterable[Turn]) -> int:
        """The number of messages of the version that are not in `turns`."""
        return self._version_length - sum(turn.role == "user" for turn in turns)

    def response_ended(self, message_id: str, answer: tuple[bytes, ...], now: float) -> None:
        """Record that the response to a message has ended.

        Args:
            answer: its text as pieces of UTF-8. Empty where there is none to remember.
        """
        self.in_flight -= 1
        self.used_at = now
        exchange = self._exchanges.get(message_id)
        if exchange is not None and answer and not exchange.answer:
            exchange.answer = answer
            self._exchanges_bytes += sum(map(len, answer))
            self._trim()
            self._count()

    @property
    def _last_of_version(self) -> str | None:
        """The last message of the version in memory."""
        return next(
            (each for each in reversed(self._responses) if each not in self._other_versions), None
        )

    def _count(self) -> None:
        """Update the count of its memory."""
        size = (
            CONVERSATION_BYTES
            + MESSAGE_BYTES * len(self._responses)
            + EXCHANGE_BYTES * len(self._exchanges)
            + self._exchanges_bytes
        )
        self._memory.bytes += size - self._counted
        self._counted = size

    def _turns(self, until: str | None = None) -> Iterator[Turn]:
        """The turns of the version, up to the question `until`."""
        for message_id, exchange in self._exchanges.items():
            yield Turn("user", exchange.question.decode())
            if message_id == until:
                return
            if exchange.answer:
                yield Turn("assistant", b"".join(exchange.answer).decode())

    def _know(self, message_id: str, response_id: str) -> None:
        self._responses[message_id] = response_id
        if len(self._responses) > self._limits.messages_remembered_per_session:
            forgotten, _ = self._responses.popitem(last=False)
            self._other_versions.discard(forgotten)

    def _remember(self, message_id: str, exchange: _Exchange) -> None:
        self._exchanges[message_id] = exchange
        self._exchanges_bytes += exchange.size
        self._trim()

    def _replace_from(self, replaced_id: str) -> None:
        known = iter(self._responses)
        for message_id in known:
            if message_id == replaced_id:
                break
        for message_id in (replaced_id, *known):
            if message_id in self._other_versions:
                continue
            self._other_versions.add(message_id)
            self._version_length -= 1
            if (exchange := self._exchanges.pop(message_id, None)) is not None:
                self._exchanges_bytes -= exchange.size

    def _trim(self) -> None:
        # The last exchange stays, and the message after it.
        fewest = _FEWEST_EXCHANGES if self._history_bytes else 0
        most = max(fewest, self._limits.messages_per_request // 2)  # each with its answer
        while len(self._exchanges) > fewest and (
            not self._history_bytes  # an empty text has no bytes either
            or self._exchanges_bytes > self._history_bytes
            or len(self._exchanges) > most
        ):
            _, oldest = self._exchanges.popitem(last=False)
            self._exchanges_bytes -= oldest.size
