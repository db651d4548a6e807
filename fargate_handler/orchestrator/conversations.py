"""The conversations in this node's memory. The least recently used are dropped first."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakValueDictionary

from evenflow.stream_core.base.channel import CHAT, Channel, MessageKind
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_account import MemoryAccount
from evenflow.stream_core.bounds.memory_bound import CONVERSATION_BYTES
from evenflow.stream_core.session.conversation import Conversation


class Conversations:
    """Conversations by channel, in the order of their last use.

    Args:
        memory: counts their bytes.
        on_forgotten: called for each conversation that is dropped to make room.
    """

    def __init__(
        self, limits: Limits, memory: MemoryAccount, on_forgotten: Callable[[], None] = lambda: None
    ) -> None:
        self._limits = limits
        self._memory = memory
        self._on_forgotten = on_forgotten
        self._known: OrderedDict[Channel, Conversation] = OrderedDict()
        self._acceptance_locks: WeakValueDictionary[Channel, asyncio.Lock] = WeakValueDictionary()

    def acceptance_lock(self, channel: Channel) -> asyncio.Lock:
        """The lock under which messages of the channel are accepted, one after the other."""
        lock = self._acceptance_locks.get(channel)
        if lock is None:
            self._acceptance_locks[channel] = lock = asyncio.Lock()
        return lock

    def get(self, channel: Channel) -> Conversation | None:
        """The channel's conversation. None: it is not in memory."""
        return self._known.get(channel)

    def open(self, channel: Channel, now: float, kind: MessageKind = CHAT) -> Conversation:
        """The channel's conversation. If there is none, one is begun for this kind of message.

        Raises:
            RateLimited: there are as many as allowed, and all are busy.
            Overloaded: they take as many bytes as allowed, and all are busy.
        """
        conversation = self._known.get(channel)
        if conversation is None:
            self._make_room_for_one()
            self.make_room(CONVERSATION_BYTES)
            # A request that brings its conversation needs no history, which would fill the memory.
            limits, keeps_history = self._limits, not kind.brings_conversation
            conversation = self._known[channel] = Conversation(
                limits, now, self._memory.conversations, keeps_history=keeps_history
            )
        conversation.used_at = now
        self._known.move_to_end(channel)
        return conversation

    def forget(self, channel: Channel) -> None:
        """Drop the channel's conversation, which is over."""
        conversation = self._known.pop(channel, None)
        if conversation is not None:
            conversation.release_memory()

    def make_room(self, more: int) -> None:
        """Make room for `more` bytes: the least recently used conversations are dropped.

        Raises:
            Overloaded: there is no room, and all are busy.
        """
        while self._memory.conversations.lacks_room(more):
            if not self._forget_idle():
                self._memory.reject()

    def sweep(self, now: float) -> None:
        """Drop conversations idle for the lifetime of a session token, and those without room."""
        while self._memory.conversations.lacks_room() and self._forget_idle():
            pass
        while self._known:
            channel, oldest = next(iter(self._known.items()))
            if self._is_busy(channel, oldest):
                self._known.move_to_end(channel)
                return
            if now - oldest.used_at < self._limits.session_token_ttl_seconds:
                return
            self.forget(channel)

    def _make_room_for_one(self) -> None:
        if len(self._known) >= self._limits.sessions_per_node and not self._forget_idle():
            raise RateLimited(
                "this node has as many sessions as it may have; nothing was accepted, try again "
                "later",
                code="sessions_full",
                retry_after_ms=5000,
            )

    def _forget_idle(self) -> bool:
        """Drop the least recently used one. Returns False if all are busy."""
        for _ in range(len(self._known)):
            channel, oldest = next(iter(self._known.items()))
            if not self._is_busy(channel, oldest):
                self.forget(channel)
                self._on_forgotten()
                return True
            # It is in use: the next search need not pass it again.
            self._known.move_to_end(channel)
        return False

    def _is_busy(self, channel: Channel, conversation: Conversation) -> bool:
        return bool(conversation.in_flight) or channel in self._acceptance_locks
