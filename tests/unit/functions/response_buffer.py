"""A response in the buffer as the poll function finds it: its owners write, and time passes only
while a poll sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from evenflow.functions.poll_response.long_poll import LongPoll, PollResult
from evenflow.functions.poll_response.stored_responses import StoredResponses
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Gone, NotFound
from evenflow.stream_core.log.entries import LogEntry, Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.memory_store import MemoryResponseStore
from evenflow.stream_core.stores.response_store import Chunk, Ending, Lease, ResponseHead, gapless

T = TypeVar("T")

CHANNEL = str(Channel("t", "demo", "s"))
START = 1_800_000_000.0
MOST_WAITING = 3
LOOK = 0.09
"""A look, and room for rounding."""
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """The result of a call of the store in memory, which waits for nothing."""
    try:
        call.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    raise AssertionError("it waited")


class Readers(StoredResponses):
    """The blocking reader, over the state of a store in memory.

    `before_the_answer` happens before the head is read alone, `within_a_look` between the chunks
    and the head of a look: the table makes no promise which of them is older.
    """

    def __init__(self, store: MemoryResponseStore) -> None:
        self._store = store
        self.before_the_answer: Callable[[], None] = lambda: None
        self.within_a_look: Callable[[], None] = lambda: None
        self.head_first = False
        self.looks: list[int] = []
        """The index from which on each read."""
        self.heads = 0

    def note_poll(
        self, response_id: str, channel: str, now: float, *, shared: bool
    ) -> ResponseHead:
        head = self._store._heads.get(response_id)
        if head is None or head.channel != channel:
            raise NotFound("no such response", code="response_not_found")
        at_once(self._store.note_read(response_id, now))
        head = self._store._heads[response_id]
        self._store._heads[response_id] = replace(
            head,
            session_polls=head.session_polls + (not shared),
            share_polls=head.share_polls + shared,
        )
        return self._unexpired(response_id, now)

    def next_index(self, response_id: str) -> int:
        return max((c.last_index + 1 for c in self._store._chunks[response_id]), default=0)

    def head(self, response_id: str, now: float) -> ResponseHead:
        self.heads += 1
        self.before_the_answer()
        return self._unexpired(response_id, now)

    def chunks_and_head(
        self, response_id: str, from_index: int, now: float
    ) -> tuple[list[Chunk], ResponseHead]:
        self.looks.append(from_index)
        if self.head_first:
            head = self._unexpired(response_id, now)
            self.within_a_look()
            return self._chunks(response_id, from_index), head
        chunks = self._chunks(response_id, from_index)
        self.within_a_look()
        return chunks, self._unexpired(response_id, now)

    def _chunks(self, response_id: str, from_index: int) -> list[Chunk]:
        return [
            chunk
            for chunk in self._store._chunks[response_id]
            if chunk.last_index >= from_index - 1
        ]

    def _unexpired(self, response_id: str, now: float) -> ResponseHead:
        head = at_once(self._store.head(response_id, now))
        if head is None:
            raise Gone("too long ago", code="response_expired")
        return head


@dataclass
class Buffer:
    """A response in the buffer, time that passes only while a poll sleeps, and what happens
    meanwhile.
    """

    now: float = START
    store: MemoryResponseStore = field(default_factory=MemoryResponseStore)
    slept: float = 0.0
    lease: Lease = field(default_factory=lambda: Lease("r", "a", 1))
    began_at: float | None = None
    next_index: int = 0
    _plans: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.readers = Readers(self.store)
        self.store.create(ResponseHead("r", CHANNEL, "m1", "a", 1, START, START + 86_400))

    @property
    def head(self) -> ResponseHead:
        """The head as it is."""
        return self.store._heads["r"]

    # -- what its owner does -----------------------------------------------------------------------

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do it so long after the start."""
        self._plans.append((START + seconds, action))
        self._plans.sort(key=lambda plan: plan[0])

    def write(
        self, *entries: LogEntry, lease: Lease | None = None, first_index: int | None = None
    ) -> None:
        """A chunk comes."""
        if self.began_at is None:
            self.began_at = self.now
        first = self.next_index if first_index is None else first_index
        lease = lease or self.lease
        at_once(
            self.store.append(
                [Chunk(lease.response_id, lease.epoch, first, entries, self.began_at)]
            )
        )
        if lease == self.lease:
            self.next_index = max(self.next_index, first + len(entries))

    def end(
        self, state: ResponseState = ResponseState.COMPLETED, next_index: int | None = None
    ) -> None:
        """The response ends."""
        index = self.next_index if next_index is None else next_index
        ending = Ending(state, index, self.now, "stop", USAGE)
        at_once(self.store.finish(self.lease, ending, self.now + 300))

    def claim(self) -> None:
        """Another task becomes its owner, and has still to say from where on."""
        epoch = self.head.epoch + 1
        self.lease = Lease("r", f"owner-{epoch}", epoch)
        self.store._heads["r"] = replace(self.head, owner=self.lease.owner, epoch=epoch)

    def begin(self) -> None:
        """The one that has claimed it says so: behind what is on record now."""
        before = replace(self.head, epoch=max(self.head.starts))
        self.next_index = gapless(before, self.store._chunks["r"], 0).next_index
        starts = {**self.head.starts, self.lease.epoch: self.next_index}
        self.store._heads["r"] = replace(self.head, starts=starts)

    def take_over(self) -> None:
        """Another task becomes its owner; its marker isn't on record yet."""
        taken = at_once(self.store.take_over("r", f"owner-{self.lease.epoch + 1}", self.now))
        assert taken is not None
        assert taken.head is not None
        self.lease = taken.head.lease
        self.next_index = taken.next_index

    def go_on(self, *entries: LogEntry, attempt: int = 2, continues: bool = True) -> None:
        """The new owner's marker comes, and what follows it."""
        self.write(
            Restart(self.next_index - 1 if continues else -1, attempt, self.lease.epoch), *entries
        )

    # -- what its readers do -----------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        assert seconds > 0
        until = self.now + seconds
        while self._plans and self._plans[0][0] <= until:
            moment, action = self._plans.pop(0)
            self.now = max(self.now, moment)
            action()
        self.now = until
        self.slept += seconds

    def hurry(self) -> None:
        """What would have happened next happens now."""
        if self._plans:
            self._plans.pop(0)[1]()

    def poll(
        self,
        from_index: int = 0,
        timeout: float = 10.0,
        channel: str = CHANNEL,
        epoch: int = 1,
        shared: bool = False,
    ) -> PollResult:
        """One poll."""
        return LongPoll(
            self.readers,
            response_id="r",
            channel=channel,
            from_index=from_index,
            epoch=epoch,
            patience=timeout,
            shared=shared,
            most_waiting=MOST_WAITING,
            wall_time=lambda: self.now,
            sleep=self.sleep,
        ).run()

    @property
    def passed(self) -> float:
        """Seconds since the start."""
        return self.now - START
