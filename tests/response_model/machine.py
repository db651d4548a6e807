"""The machine: what tasks, clients, the network and time may do, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from evenflow.stream_core.log.entries import joined
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.response_store import Chunk
from tests.response_model.implementations import Implementation, InMemory
from tests.response_model.members import Copy
from tests.response_model.system import BEGAN_AT, LEASE_SECONDS, System, one_of

_ANSWERS = 2
_SHORTEST = 6
"""No answer ends before this index: there would be nothing to see."""
# Both ways, what a machine's clock may be wrong by.
_SKEWS = st.sampled_from([-3.0, 0.0, 3.0])
_ANY = st.integers(0, 5)
"""Which of several: counted from the first, and again from there."""


class Fate(Enum):
    """What becomes of a write.

    Unless its answer comes, its owner begins there again, perhaps with more.
    """

    TAKEN = auto()
    UNANSWERED = auto()
    LATE = auto()


class ResponseMachine(RuleBasedStateMachine):
    """Some answers, the tasks that own or follow them, and two clients for each: one tells which
    epoch it knows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.system = System(self.implement())

    def implement(self) -> Sequence[Implementation]:
        """The stores for one play, empty."""
        return [InMemory()]

    @initialize(skews=st.tuples(_SKEWS, _SKEWS, _SKEWS))
    def begin(self, skews: tuple[float, float, float]) -> None:
        """Tasks start, and one of them accepts a message."""
        for skew in skews:
            self.system.start_task(skew)
        self.accept(0)

    # -- what owners do ----------------------------------------------------------------------------

    @precondition(lambda self: len(self.system.answers) < _ANSWERS)
    @rule(who=_ANY)
    def accept(self, who: int) -> None:
        """A message comes, also to a task that has lost its lease and doesn't know."""
        self.system.accept(self.system.awake(who))

    @rule(which=_ANY, count=st.integers(1, 6))
    def generate(self, which: int, count: int) -> None:
        """The model goes on."""
        if (copy := self.system.owned(which)) is not None:
            for _ in range(count):
                self.system.generate(copy)

    @rule(which=_ANY)
    def restart(self, which: int) -> None:
        """An attempt failed; the same owner begins again."""
        copy = self.system.owned(which)
        if copy is not None and not copy.log.closed and copy.log.next_index:
            copy.log.restart(-1, attempt=7)

    @rule(which=_ANY)
    def end(self, which: int) -> None:
        """The model has finished. The owner's readers are told at once."""
        copy = self.system.owned(which)
        if copy is not None and not copy.log.closed and copy.log.next_index >= _SHORTEST:
            copy.log.close(ResponseState.COMPLETED)

    @rule(which=_ANY, most=st.sampled_from([2, 100]), fate=st.sampled_from(Fate))
    def write(self, which: int, most: int, fate: Fate) -> None:
        """An owner sends what it doesn't know to be on record."""
        copy = self.system.owned(which)
        if copy is None or copy.lease is None or copy.written == copy.log.next_index:
            return
        entries = tuple(copy.log.entries[copy.written : copy.written + most])
        chunk = Chunk(copy.response_id, copy.lease.epoch, copy.written, entries, BEGAN_AT)
        if fate is Fate.LATE:
            self.system.in_flight.append(chunk)
            return
        self.system.append([chunk])
        if fate is Fate.TAKEN:
            copy.written = chunk.last_index + 1

    @rule(which=_ANY, again=st.booleans())
    def arrive(self, which: int, again: bool) -> None:
        """A write arrives late, of whomever; or it comes a second time."""
        if self.system.in_flight:
            chunk = one_of(self.system.in_flight, which)
            self.system.append([chunk])
            if not again:
                self.system.in_flight.remove(chunk)

    @rule(which=_ANY)
    def finish(self, which: int) -> None:
        """An owner puts the rest on record, and how it ended."""
        self.end(which)
        if (copy := self.system.owned(which)) is not None and copy.log.closed:
            self.system.finish(copy)

    # -- what becomes of tasks ---------------------------------------------------------------------

    @rule(who=_ANY, late=st.sampled_from([0.0, 2.0]))
    def renew(self, who: int, late: float) -> None:
        """A task keeps its lease, or learns that it has lost it, and everything with it.

        The call may be an old one.
        """
        self.system.renew(self.system.awake(who), late)

    @rule(who=_ANY, skew=_SKEWS)
    def crash(self, who: int, skew: float) -> None:
        """A task is gone, and another starts."""
        self.system.end_task(self.system.awake(who), skew)

    @rule(who=_ANY, skew=_SKEWS)
    def leave(self, who: int, skew: float) -> None:
        """A task hands over what it owns, releases its lease and is gone, and another starts."""
        task = self.system.awake(who)
        for copy in task.owned:
            self.system.hand_over(task, copy)
        task.stores.responses(lambda store: store.release(task.owner))
        self.system.leases.lose(task.owner)
        self.system.end_task(task, skew)

    @rule()
    def wake_up(self) -> None:
        """All that sleep go on as if nothing had been."""
        for task in self.system.tasks:
            task.awake = True

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 5.0]), renewing=st.booleans())
    def wait(self, seconds: float, renewing: bool) -> None:
        """Time passes, and models go on; tasks keep their leases, or can't."""
        self.system.wait(seconds)
        if renewing:
            self.system.renew_all()

    # -- taking over -------------------------------------------------------------------------------

    @rule(who=_ANY, which=_ANY, continues=st.booleans())
    def take_over(self, who: int, which: int, continues: bool) -> None:
        """A reader came to a task, which looks whether the response has an owner."""
        task = self.system.awake(who)
        self.system.look(task)
        self.system.take_over(task, one_of(list(self.system.answers), which), continues=continues)

    @precondition(lambda self: sum(task.awake for task in self.system.tasks) > 1)
    @rule(which=_ANY, who=_ANY, asleep=st.booleans(), continues=st.booleans())
    def stall(self, which: int, who: int, asleep: bool, continues: bool) -> None:
        """A task doesn't come to renew its lease in time, or to nothing at all, and another
        takes over an answer of it.
        """
        if (copy := self.system.owned(which)) is None:
            return
        stalled = self.system.owner_of(copy)
        stalled.awake = False
        other = self.system.awake(who)
        self.system.look(other)
        stalled.awake = not asleep
        self.system.wait(2 * LEASE_SECONDS)
        stalled.awake = False
        self.system.renew_all()
        self.system.look(other)
        self.system.take_over(other, copy.response_id, continues=continues)
        stalled.awake = not asleep

    @rule(who=_ANY, continues=st.booleans())
    def sweep(self, who: int, continues: bool) -> None:
        """A task looks for lapsed leases."""
        self.system.sweep(self.system.awake(who), continues=continues)

    # -- what followers and clients do -------------------------------------------------------------

    @rule(who=_ANY, which=_ANY, from_owner=st.booleans())
    def follow(self, who: int, which: int, from_owner: bool) -> None:
        """A task copies a response from the store, or from one that takes itself for its owner."""
        task, response_id = self.system.awake(who), one_of(list(self.system.answers), which)
        copy = task.copies.setdefault(response_id, Copy(response_id))
        if copy.lease is not None:
            return
        if from_owner:
            owned = [owned for owned in self.system.all_owned() if owned.response_id == response_id]
            good = not owned or copy.follow_owner(one_of(owned, which).log)
        else:
            good = copy.follow_store(self.system.read(task, response_id, copy.log.next_index))
        if not good:
            self.system.drop(task, copy)

    @rule(who=_ANY, which=_ANY)
    def look(self, who: int, which: int) -> None:
        """Somebody reads what is on record, from anywhere on."""
        task, response_id = self.system.awake(who), one_of(list(self.system.answers), which)
        self.system.read(
            task, response_id, which % (len(self.system.answers[response_id].record) + 2)
        )

    @rule(
        client=_ANY,
        most=st.sampled_from([1, 12, 1_000]),
        visits=st.lists(st.tuples(_ANY, st.integers(0, 8)), min_size=1, max_size=3),
    )
    def come_back(self, client: int, most: int, visits: list[tuple[int, int]]) -> None:
        """A client resumes at tasks that have a copy of its response, one after the other, and
        is given some frames.
        """
        reader = one_of(self.system.clients, client)
        copies = [task.copies.get(reader.response_id) for task in self.system.tasks if task.awake]
        there = [copy for copy in copies if copy is not None]
        for where, frames in visits if there else ():
            reader.connect(one_of(there, where), most)
            reader.read(frames)

    @rule(which=_ANY, frames=st.integers(1, 5))
    def read(self, which: int, frames: int) -> None:
        """A client is given some frames."""
        one_of(self.system.clients, which).read(frames)

    # -- in the end --------------------------------------------------------------------------------

    def teardown(self) -> None:
        """A last task ends what is left, and every late write arrives: then all clients have the
        text on record.
        """
        if not self.system.answers:
            return
        self.wake_up()
        last = self.system.start_task(0.0)
        self.system.look(last)
        self.system.wait(10 * LEASE_SECONDS)
        self.system.sweep(last, continues=True)
        for response_id, answer in self.system.answers.items():
            self.system.take_over(
                last, response_id, continues=True
            )  # a task may have accepted it after it was forgotten
            if not answer.ended:
                self.system.end(last.copies[response_id])
            record = self.system.read(last, response_id, 0)
            copy = Copy(response_id)
            assert copy.follow_store(record)
            assert copy.log.closed
            for client in (
                client for client in self.system.clients if client.response_id == response_id
            ):
                client.connect(copy, 12)
                client.read(10_000)
                assert client.held.contents == [*joined(copy.log.read(0).current)]
