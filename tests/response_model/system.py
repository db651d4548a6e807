"""The tasks, what they share and who reads: one thing that happens at a time, and what must come
of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import pytest

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.log.entries import Content, Part, PartKind
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.response_store import (
    Chunk,
    Ending,
    Lease,
    LeaseLost,
    NodeLease,
    ResponseStore,
    StoredEntries,
)
from evenflow.stream_core.stores.session_store import LedgerEntry
from tests.response_model.implementations import Implementation, Stores
from tests.response_model.members import Client, Copy, Task
from tests.response_model.truth import Answer, Leases

T = TypeVar("T")

BEGAN_AT = 1_800_000_000.0
"""When a play begins, in seconds since the epoch."""

LEASE_SECONDS = 3.0
_LIFETIME_SECONDS = 3_600.0


class System:
    """Everything that takes part in one play."""

    def __init__(self, implementations: Sequence[Implementation]) -> None:
        self.now = BEGAN_AT
        self.answers: dict[str, Answer] = {}
        self.tasks: list[Task] = []
        self.clients: list[Client] = []
        self.in_flight: list[Chunk] = []
        """Writes that have not arrived, or may arrive again."""
        self.leases = Leases()
        self._implementations = implementations
        self._stores = Stores(implementations)
        self._names = 0

    # -- tasks -------------------------------------------------------------------------------------

    def start_task(self, skew: float) -> Task:
        """A task is there, with its lease."""
        task = Task(self._name("task"), skew, Stores(self._implementations))
        self.tasks.append(task)
        self.renew(task)
        return task

    def end_task(self, task: Task, skew: float) -> None:
        """A task is gone, and another starts."""
        self.lose_everything(task)
        self.tasks.remove(task)
        self.start_task(skew)

    def renew(self, task: Task, late: float = 0.0) -> None:
        """A task keeps its lease, or learns that it has lost it: then it takes another name, and
        drops everything.
        """
        until, address = self.now - late + task.skew + LEASE_SECONDS, f"http://{task.name}"
        if self.leases.is_lost(task.owner):
            with pytest.raises(LeaseLost):
                task.stores.responses(lambda store: store.renew(task.owner, until, address))
            task.names += 1
            self.lose_everything(task)
        task.stores.responses(lambda store: store.renew(task.owner, until, address))
        self.leases.renew(task.owner, until, address)

    def renew_all(self) -> None:
        """All that are awake."""
        for task in self.tasks:
            if task.awake:
                self.renew(task)

    def wait(self, seconds: float) -> None:
        """Time passes, and models go on."""
        self.now += seconds
        for copy in self.all_owned():
            self.generate(copy)

    def awake(self, which: int) -> Task:
        """One of the tasks that do something."""
        return one_of([task for task in self.tasks if task.awake], which)

    def lose_everything(self, task: Task) -> None:
        """A task's copies are gone."""
        for copy in tuple(task.copies.values()):
            self.drop(task, copy)

    def drop(self, task: Task, copy: Copy) -> None:
        """A copy is gone, and its clients have to come back."""
        del task.copies[copy.response_id]
        for client in self.clients:
            if client.is_at(copy):
                client.disconnect()

    # -- owners ------------------------------------------------------------------------------------

    def accept(self, task: Task) -> None:
        """A message comes, and with its answer two clients."""
        response_id = self._name("response")
        channel, message_id = Channel("t", "a", self._name("session")), self._name("message")
        entry = LedgerEntry(message_id, None, "hello", response_id, task.owner)
        lease = task.stores.sessions(lambda store: store.accept(channel, entry, self.now))
        assert lease == Lease(response_id, task.owner, 1)
        copy = task.copies[response_id] = Copy(response_id, lease=lease)
        self.answers[response_id] = Answer(lease, {1: copy.log})
        self.generate(copy)
        self.generate(copy)
        self.clients += [Client(response_id, tells_epoch=tells) for tells in (True, False)]

    def generate(self, copy: Copy) -> None:
        """One more entry of an owner that has not ended it, which says whose and which it is."""
        assert copy.lease is not None
        if not copy.log.closed:
            copy.log.extend([_said(copy.lease.epoch, copy.log.next_index)])

    def append(self, chunks: Sequence[Chunk]) -> None:
        """Writes arrive."""
        assert list(self._stores.responses(lambda store: store.append(chunks))) == []

    def end(self, copy: Copy) -> None:
        """An owner generates the last of it; what comes late comes now, and again afterwards."""
        self.generate(copy)
        if not copy.log.closed:
            copy.log.close(ResponseState.COMPLETED)
        self.append(self.in_flight)
        self.finish(copy)
        self.append(self.in_flight)

    def finish(self, copy: Copy) -> None:
        """An owner puts what is left on record, and the end. One that was lost can't."""
        task, lease, answer = self.owner_of(copy), copy.lease, self.answers[copy.response_id]
        assert lease is not None
        rest = tuple(copy.log.entries[copy.written :])
        self.append(
            [Chunk(copy.response_id, lease.epoch, copy.written, rest, BEGAN_AT)] if rest else []
        )
        ending = Ending(ResponseState.COMPLETED, copy.log.next_index, BEGAN_AT, "stop")
        if lease != answer.lease:
            with pytest.raises(LeaseLost):
                task.stores.responses(
                    lambda store: store.finish(lease, ending, BEGAN_AT + _LIFETIME_SECONDS)
                )
            self.drop(task, copy)
            return
        task.stores.responses(
            lambda store: store.finish(lease, ending, BEGAN_AT + _LIFETIME_SECONDS)
        )
        answer.ended = True

    def hand_over(self, task: Task, copy: Copy) -> None:
        """An owner leaves in order. One that was lost can't."""
        lease, answer = copy.lease, self.answers[copy.response_id]
        assert lease is not None
        if lease == answer.lease:
            task.stores.responses(lambda store: store.hand_over(lease))
            answer.handed_over.add(lease.epoch)
        else:
            with pytest.raises(LeaseLost):
                task.stores.responses(lambda store: store.hand_over(lease))

    def owned(self, which: int) -> Copy | None:
        """A copy whose task takes itself for the owner, and is awake."""
        owned = self.all_owned()
        return one_of(owned, which) if owned else None

    def all_owned(self) -> list[Copy]:
        """All of these."""
        return [copy for task in self.tasks if task.awake for copy in task.owned]

    def owner_of(self, copy: Copy) -> Task:
        """The task that has this copy."""
        return next(task for task in self.tasks if copy in task.owned)

    # -- taking over -------------------------------------------------------------------------------

    def sweep(self, task: Task, *, continues: bool) -> None:
        """Look for lapsed leases, and take over what they covered, as `Failover` does."""
        for owner in self.look(task):
            left = task.stores.responses(lambda store, owner=owner: store.unfinished(owner))  # type: ignore[misc]
            assert set(left) == {
                response_id
                for response_id, answer in self.answers.items()
                if answer.lease.owner == owner and not answer.ended
            }
            for response_id in sorted(left):
                self.take_over(task, response_id, continues=continues)
            if not left:
                task.stores.responses(lambda store, owner=owner: store.forget(owner))  # type: ignore[misc]
                self.leases.forget(owner)

    def look(self, task: Task) -> list[str]:
        """Read all leases, and declare those lost that have not changed for their time, as
        `LeaseView` does.

        Returns the lost owners.
        """
        leases = task.stores.responses(self._remembered_leases)
        assert set(leases) == set(self.leases.all())
        lost = []
        for lease in sorted(leases, key=lambda lease: lease.owner):
            until, since = task.seen.get(lease.owner, (lease.until, self.now))
            if until != lease.until:
                self._declare_lost(task, replace(lease, until=until))
                since = self.now
            elif self.now - since >= LEASE_SECONDS and lease.owner != task.owner:
                self._declare_lost(task, lease)
            task.seen[lease.owner] = (lease.until, since)
            if self.leases.is_lost(lease.owner) and lease.owner != task.owner:
                lost.append(lease.owner)
        return lost

    def _declare_lost(self, task: Task, lease: NodeLease) -> None:
        """That is refused if it was renewed since it was read."""
        done = self.leases.is_lost(lease.owner) or lease in self.leases.all()
        assert task.stores.responses(lambda store: store.declare_lost(lease)) is done
        if done:
            self.leases.lose(lease.owner)

    def take_over(self, task: Task, response_id: str, *, continues: bool) -> None:
        """What a task asks for is given if, and only if, nobody has it; then all of what is on
        record is still there.
        """
        answer, now = self.answers[response_id], self.now + task.skew
        before = self.read(task, response_id, 0)
        stored = task.stores.responses(lambda store: store.take_over(response_id, task.owner, now))
        earlier = answer.lease
        if answer.ended or (earlier.owner != task.owner and self.leases.covers(earlier.owner)):
            assert stored is None
            return
        assert stored is not None
        assert stored.head is not None
        lease = stored.head.lease
        if earlier.owner == task.owner:
            assert lease == earlier
            return
        assert lease == Lease(response_id, task.owner, earlier.epoch + 1)
        self.leases.lose(earlier.owner)
        if (follower := task.copies.get(response_id)) is not None:
            self.drop(task, follower)
        copy = task.copies[response_id] = Copy(response_id)
        answer.lease, answer.logs[lease.epoch] = lease, copy.log
        assert stored == self.read(task, response_id, 0), "what it is given is what everybody reads"
        assert list(stored.entries) == list(before.entries)
        assert stored.head.starts[lease.epoch] == stored.next_index
        copy.adopt_log(stored, lease, continues=continues)

    def read(self, task: Task, response_id: str, from_index: int) -> StoredEntries:
        """What is on record, as it must be."""
        stored = task.stores.responses(
            lambda store: store.entries(response_id, from_index, self.now)
        )
        self.answers[response_id].check_entries(stored)
        return stored

    async def _remembered_leases(self, store: ResponseStore) -> list[NodeLease]:
        return self.leases.remembered(await store.leases())

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}-{self._names}"


def one_of(things: Sequence[T], which: int) -> T:
    """Counted from the first, and again from there."""
    return things[which % len(things)]


def _said(epoch: int, index: int) -> Content:
    """Some text, some reasoning, a value, and so on. Neighbours join, or they don't."""
    text = f"{epoch}.{index} "
    if index % 7 < 3:
        return text
    if index % 7 < 6:
        return Part(PartKind.REASONING, text, name="reasoning_content")
    return Part(PartKind.DATA, f'"{text}"', name="source")
