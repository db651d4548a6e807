"""The conversations that this node knows. There is a limit: the one idle longest is forgotten."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from weakref import WeakValueDictionary

from stream_core.log.conversation import Conversation
from stream_core.policy.channel import CHAT, Channel, MessageKind
from stream_core.policy.limits import Limits
from stream_core.protocol.errors import RateLimited


class Conversations:
    """Conversations by channel, in the order of their last use."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: OrderedDict[Channel, Conversation] = OrderedDict()
        self._turns: WeakValueDictionary[Channel, asyncio.Lock] = WeakValueDictionary()

    def turn(self, channel: Channel) -> asyncio.Lock:
        """A lock for accepting a message of the channel, so that they are accepted in turn."""
        lock = self._turns.get(channel)
        if lock is None:
            self._turns[channel] = lock = asyncio.Lock()
        return lock

    def get(self, channel: Channel) -> Conversation | None:
        """The channel's conversation. None if this node doesn't know it."""
        return self._known.get(channel)

    def open(self, channel: Channel, now: float, kind: MessageKind = CHAT) -> Conversation:
        """The channel's conversation. If there is none, one is begun for this kind of message.

        Raises:
            RateLimited: there are as many as allowed, and all are busy.
        """
        conversation = self._known.get(channel)
        if conversation is None:
            self._make_room()
            # A request that brings its conversation needs no history, which would fill the memory.
            limits, keeps_history = self._limits.of(channel.tenant), not kind.brings_conversation
            conversation = self._known[channel] = Conversation(
                limits, now, keeps_history=keeps_history
            )
        conversation.used_at = now
        self._known.move_to_end(channel)
        return conversation

    def forget(self, channel: Channel) -> None:
        """Forget the channel's conversation, which is over."""
        self._known.pop(channel, None)

    def sweep(self, now: float) -> None:
        """Forget conversations that have been idle for the lifetime of a session token."""
        while self._known:
            channel, oldest = next(iter(self._known.items()))
            if oldest.in_flight or channel in self._turns:
                self._known.move_to_end(channel)
                return
            if now - oldest.used_at < self._limits.session_token_ttl_seconds:
                return
            del self._known[channel]

    def _make_room(self) -> None:
        if len(self._known) < self._limits.sessions_per_node:
            return
        idle = next(
            (
                channel
                for channel, known in self._known.items()
                if not known.in_flight and channel not in self._turns
            ),
            None,
        )
        if idle is None:
            raise RateLimited(
                "this node has as many sessions as it may have; nothing was accepted, try again "
                "later",
                code="sessions_full",
                retry_after_ms=5000,
            )
        del self._known[idle]
