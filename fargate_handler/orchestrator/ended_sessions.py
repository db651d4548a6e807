"""Which sessions were ended, at this task or another, so that their tokens open nothing."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from evenflow.fargate_handler.node_context import NodeContext
from evenflow.stream_core.policy.channel import Channel
from evenflow.stream_core.ports.response_store import StoreUnavailable
from evenflow.stream_core.ports.session_store import SessionStore
from evenflow.stream_core.protocol.errors import Gone

# For so long what was read of a session counts, so that most calls read nothing.
_FRESH_SECONDS = 5.0
# A call waits no longer for it: what a session that was ended has left can't be read anyway.
_PATIENCE_SECONDS = 1.0
_MOST_SESSIONS = 16_384  # 5 MB
_READ_AT_ONCE = 100


def session_ended() -> Gone:
    """The refusal of whatever comes after the end of a session."""
    return Gone(
        "this session was ended, and nothing of it is kept; POST /session without a session_id "
        "opens a new one",
        code="session_ended",
    )


class _Look(NamedTuple):
    """When a session was looked at, and whether it had been ended."""

    at: float
    ended: bool


class EndedSessions:
    """Knows which sessions were ended, as far as that was looked at.

    While the store can't be reached, what is known counts.

    Args:
        sessions: has the ends of all sessions.
    """

    def __init__(self, context: NodeContext, sessions: SessionStore) -> None:
        self._sessions = sessions
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._lifetime = context.limits.session_token_ttl_seconds
        self._looks: OrderedDict[Channel, _Look] = OrderedDict()
        """Of the sessions that were looked at last."""

    def note(self, channel: Channel) -> None:
        """A session was ended here."""
        self._put(channel, ended=True)

    def check(self, channel: Channel) -> None:
        """Check that a session is not known to have been ended.

        Raises:
            Gone: it is.
        """
        look = self._looks.get(channel)
        if look is not None and look.ended and self._monotonic() < look.at + self._lifetime:
            raise session_ended()

    async def look(self, channel: Channel) -> None:
        """Check that a session was not ended, if need be in the store.

        Raises:
            Gone: it was.
        """
        await self.look_at([channel])
        self.check(channel)

    async def look_at(self, channels: Collection[Channel]) -> None:
        """Find out which of these sessions were ended. `check` knows it then."""
        for batch in _batches([channel for channel in set(channels) if self._is_due(channel)]):
            began_at = self._monotonic()
            ended = await self._read(batch)
            for channel in batch:
                look = self._looks.get(channel)
                if look is None or look.at < began_at:  # otherwise it was ended here meanwhile
                    self._put(channel, ended=channel in ended)

    async def _read(self, channels: Sequence[Channel]) -> frozenset[Channel]:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await self._sessions.ended_of(channels, self._wall_time())
        except (StoreUnavailable, TimeoutError):
            return frozenset(each for each in channels if self._was_ended(each))

    def _is_due(self, channel: Channel) -> bool:
        look = self._looks.get(channel)
        return look is None or self._monotonic() >= look.at + _FRESH_SECONDS

    def _was_ended(self, channel: Channel) -> bool:
        look = self._looks.get(channel)
        return look is not None and look.ended

    def _put(self, channel: Channel, *, ended: bool) -> None:
        self._looks[channel] = _Look(self._monotonic(), ended)
        self._looks.move_to_end(channel)
        if len(self._looks) > _MOST_SESSIONS:
            self._looks.popitem(last=False)


def _batches(channels: Sequence[Channel]) -> Iterator[Sequence[Channel]]:
    return (
        channels[first : first + _READ_AT_ONCE] for first in range(0, len(channels), _READ_AT_ONCE)
    )
