"""The sessions that were ended, on any node. Their tokens are no longer valid."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Gone
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.stores.session_store import SessionStore

# How long the state of a session is cached.
_FRESH_SECONDS = 5.0
# How long a call waits for the store: an ended session has nothing that could be read.
_TIMEOUT_SECONDS = 1.0
_MAX_SESSIONS = 16_384  # 5 MB
_BATCH_SIZE = 100


def session_ended() -> Gone:
    """The error for every call after the end of a session."""
    return Gone(
        "this session was ended, and nothing of it is kept; POST /session without a session_id "
        "opens a new one",
        code="session_ended",
    )


class _KnownState(NamedTuple):
    """Whether a session had been ended, and when that was read, on the monotonic clock."""

    read_at: float
    ended: bool


class EndedSessions:
    """Caches which sessions were ended.

    While the store cannot be reached, the last known state counts.

    Args:
        sessions: the store, which has the ends of all sessions.
    """

    def __init__(self, context: NodeContext, sessions: SessionStore) -> None:
        self._sessions = sessions
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._lifetime = context.limits.session_token_ttl_seconds
        self._states: OrderedDict[Channel, _KnownState] = OrderedDict()
        """By session, the least recently read first."""

    def note_end(self, channel: Channel) -> None:
        """Record that a session was ended by this node."""
        self._put(channel, ended=True)

    def note_stored(self, channel: Channel, began_at: float) -> None:
        """Record that the store has accepted a message of a session: it was not ended.

        Args:
            began_at: a time before that, on the monotonic clock.
        """
        self._note(channel, began_at, ended=False)

    def check(self, channel: Channel) -> None:
        """Check that a session was not ended, as far as this node knows.

        Raises:
            Gone: it was.
        """
        state = self._states.get(channel)
        if state is not None and state.ended and self._monotonic() < state.read_at + self._lifetime:
            raise session_ended()

    async def check_in_store(self, channel: Channel) -> None:
        """Check that a session was not ended. Reads the store unless it was read lately.

        Raises:
            Gone: it was.
        """
        if self._is_due(channel):
            await self.refresh([channel])
        self.check(channel)

    async def refresh(self, channels: Collection[Channel]) -> None:
        """Read which of these sessions were ended, for `check`."""
        for batch in _batches([channel for channel in set(channels) if self._is_due(channel)]):
            began_at = self._monotonic()
            ended = await self._read(batch)
            for channel in batch:
                self._note(channel, began_at, ended=channel in ended)

    async def _read(self, channels: Sequence[Channel]) -> frozenset[Channel]:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                return await self._sessions.find_ended(channels, self._wall_time())
        except (StoreUnavailable, TimeoutError):
            return frozenset(each for each in channels if self._was_ended(each))

    def _is_due(self, channel: Channel) -> bool:
        state = self._states.get(channel)
        return state is None or self._monotonic() >= state.read_at + _FRESH_SECONDS

    def _was_ended(self, channel: Channel) -> bool:
        state = self._states.get(channel)
        return state is not None and state.ended

    def _note(self, channel: Channel, began_at: float, *, ended: bool) -> None:
        """Record what the store said since `began_at`."""
        state = self._states.get(channel)
        if state is None or state.read_at < began_at:  # else it was ended here meanwhile
            self._put(channel, ended=ended)

    def _put(self, channel: Channel, *, ended: bool) -> None:
        self._states[channel] = _KnownState(self._monotonic(), ended)
        self._states.move_to_end(channel)
        if len(self._states) > _MAX_SESSIONS:
            self._states.popitem(last=False)


def _batches(channels: Sequence[Channel]) -> Iterator[Sequence[Channel]]:
    return (channels[first : first + _BATCH_SIZE] for first in range(0, len(channels), _BATCH_SIZE))
