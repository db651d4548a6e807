"""The responses in this node's memory: running ones, and those that ended a few minutes ago."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Gone, NotFound
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_account import MemoryAccount
from evenflow.stream_core.bounds.memory_bound import (
    DELTA_BYTES,
    PART_OBJECT_BYTES,
    ended_response_bytes,
)
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.folded_entries import FoldedEntries

# Most readers reconnect within this time. Later ones receive a replica from the store.
_KEPT_SECONDS = 300.0


class Responses:
    """Finds a response for its session, and drops it after its time.

    Args:
        memory: counts their bytes.
    """

    def __init__(
        self, limits: Limits, memory: MemoryAccount, monotonic: Callable[[], float]
    ) -> None:
        self._limits = limits
        self._memory = memory
        self._monotonic = monotonic
        self._kept_seconds = min(_KEPT_SECONDS, limits.response_ttl_seconds)
        self._kept: dict[str, ResponseStream] = {}
        self._of_channel: dict[Channel, list[ResponseStream]] = {}
        self._running: dict[str, ResponseStream] = {}
        # The size that each was counted as, and the time at which it ended.
        self._ended: OrderedDict[str, tuple[ResponseStream, int, float]] = OrderedDict()
        self._forgotten: OrderedDict[str, Channel] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def remembers(self, response_id: str) -> bool:
        """Whether a response is in memory, or was until recently."""
        return response_id in self._kept or response_id in self._forgotten

    def add(self, stream: ResponseStream) -> None:
        """Keep a new response. The session's oldest ended one may make room for it."""
        siblings = self._of_channel.setdefault(stream.channel, [])
        if len(siblings) >= self._limits.responses_held_per_session:
            oldest = next(
                (sibling for sibling in siblings if sibling.response_id in self._ended), None
            )
            if oldest is not None:
                self._forget(oldest)
                siblings = self._of_channel.setdefault(stream.channel, [])
        self._kept[stream.response_id] = self._running[stream.response_id] = stream
        siblings.append(stream)

    def get(self, response_id: str, channel: Channel) -> ResponseStream:
        """A response of this session.

        Raises:
            NotFound: there is no such response here, or it is another session's.
            Gone: it was forgotten here. The store may have it.
        """
        stream = self._kept.get(response_id)
        if stream is not None and stream.channel == channel:
            return stream
        if self._forgotten.get(response_id) == channel:
            raise Gone(
                f"response {response_id} has ended and is no longer kept; ask again with a new "
                "message",
                code="response_expired",
            )
        raise NotFound(
            f"this session has no response {response_id[:64]!r}", code="response_not_found"
        )

    def of_any_session(self, response_id: str) -> ResponseStream | None:
        """A response of any session. None if it is not in memory."""
        return self._kept.get(response_id)

    def of_session(self, response_id: str, channel: Channel) -> ResponseStream | None:
        """A response of this session. None if it is not in memory."""
        stream = self._kept.get(response_id)
        return stream if stream is not None and stream.channel == channel else None

    def drop(self, stream: ResponseStream) -> None:
        """Drop a response, or this replica of it. The next reader finds another one, or none."""
        if self._kept.get(stream.response_id) is not stream:
            return
        self._remove(stream)

    def of(self, channel: Channel) -> list[ResponseStream]:
        """All responses of a session in memory, oldest first."""
        return self._of_channel.get(channel, [])

    def ended(self, stream: ResponseStream) -> None:
        """Record that a response has ended, or a replica is complete. Old ones may be dropped.

        They haven't expired: later readers receive a replica from the store.
        """
        size = _ended_bytes(stream)
        self._running.pop(stream.response_id, None)
        self._ended[stream.response_id] = stream, size, self._monotonic()
        self._memory.ended.bytes += size
        while self._memory.ended.lacks_room() and len(self._ended) > 1:
            self.drop(next(iter(self._ended.values()))[0])

    def shorten_longest(self) -> int:
        """Count the memory of running responses. If it is too much, the longest ones are cut short.

        Returns:
            The number of responses that were cut short.
        """
        running, memory = self._running.values(), self._memory.running
        memory.bytes = sum(map(_running_bytes, running))
        if not memory.lacks_room():
            return 0
        excess, shortened = memory.bytes - memory.most, 0
        # A replica ends with the response at its owner.
        own = [stream for stream in running if stream.is_owned_here]
        for stream in sorted(own, key=_running_bytes, reverse=True):
            if excess <= 0:
                break
            excess -= _running_bytes(stream)
            shortened += stream.allowance.shorten()
        return shortened

    def readers(self) -> Counter[str]:
        """The number of readers with deliveries, by tenant.

        An answer without a reader counts as one: it takes its slots on the clock, too.
        """
        readers: Counter[str] = Counter()
        for stream in self._running.values():
            if stream.first_delta_at is not None and not stream.paused:
                readers[stream.channel.tenant] += max(1, len(stream.readers))
        return readers

    def sweep(self, now: float) -> None:
        """Forget responses whose time in memory is over.

        Not those with readers, or that the recorder still writes: they are nowhere else.
        """
        ended = self._ended
        for _ in range(len(ended)):
            response_id, (stream, _size, since) = next(iter(ended.items()))
            if now - since < self._kept_seconds:
                return
            if stream.readers or stream.delivery.is_recorded:
                ended.move_to_end(response_id)
            else:
                self._forget(stream)

    def _forget(self, stream: ResponseStream) -> None:
        self._remove(stream)
        self._forgotten[stream.response_id] = stream.channel
        if len(self._forgotten) > self._limits.expired_responses_remembered:
            self._forgotten.popitem(last=False)

    def _remove(self, stream: ResponseStream) -> None:
        del self._kept[stream.response_id]
        self._running.pop(stream.response_id, None)
        _, size, _ = self._ended.pop(stream.response_id, (stream, 0, 0.0))
        self._memory.ended.bytes -= size
        siblings = self._of_channel[stream.channel]
        siblings.remove(stream)
        if not siblings:
            del self._of_channel[stream.channel]


def _running_bytes(stream: ResponseStream) -> int:
    """The memory of a running response's log, in bytes."""
    log = stream.log
    entries = log.next_index * DELTA_BYTES + log.parts * PART_OBJECT_BYTES
    return log.text_bytes + log.wide_bytes + entries


def _ended_bytes(stream: ResponseStream) -> int:
    """The memory of an ended response, in bytes."""
    log = stream.log
    runs = log.entries.runs if isinstance(log.entries, FoldedEntries) else 1
    return ended_response_bytes(log.text_bytes, log.next_index, runs)
