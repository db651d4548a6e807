"""Who takes part: tasks that own or follow responses, and clients that read them."""

from __future__ import annotations

from dataclasses import dataclass, field

from evenflow.stream_core.log.entries import LogEntry, Restart
from evenflow.stream_core.log.response_log import REPLACES_ALL, Cursor, ResponseLog, resume_point
from evenflow.stream_core.stores.response_store import Lease, StoredEntries
from tests.response_model.implementations import Stores
from tests.unit.recording_reader import AssembledText, standing_text


@dataclass(eq=False)
class Copy:
    """A response as one task has it: as its owner (`lease`), or because it follows it."""

    response_id: str
    log: ResponseLog = field(default_factory=ResponseLog)
    lease: Lease | None = None
    written: int = 0
    """Its owner: the next index that it doesn't know to be on record."""

    def adopt_log(self, stored: StoredEntries, lease: Lease, *, continues: bool) -> None:
        """Go on with what an earlier owner left, as `ResponseStream.adopt_log` does."""
        self.lease = lease
        self.log.extend(stored.entries)
        self.written = self.log.next_index
        if lease.epoch > 1:
            attempts = [entry.attempt for entry in stored.entries if isinstance(entry, Restart)]
            self.log.restart(
                self.written - 1 if continues else -1, 1 + max(attempts, default=1), lease.epoch
            )

    def follow_store(self, stored: StoredEntries) -> bool:
        """Add what is on record; False where this copy has what isn't part of the response any
        more.
        """
        assert stored.head is not None
        if self.log.closed:
            return True
        later_owner_begins_at = stored.head.first_index_after(
            self.log.epoch_at(self.log.next_index)
        )
        if later_owner_begins_at is not None and later_owner_begins_at < self.log.next_index:
            return False
        self.log.extend(stored.entries)
        ending = stored.head.ending
        if ending is not None and self.log.next_index >= ending.next_index:
            self.log.close(ending.state)
        return True

    def follow_owner(self, owner: ResponseLog) -> bool:
        """Add what the owner has, or who takes itself for it; False as above."""
        log = self.log
        point = resume_point(owner, log.next_index - 1, log.epoch_at(log.next_index))
        if point is None or log.closed:
            return True  # it can't say more
        if point.restarted is not None:
            return False
        log.extend(owner.entries[point.next_index :])
        if owner.state is not None:
            log.close(owner.state)
        return True


@dataclass(eq=False)
class Task:
    """A handler task. Its clock is wrong by `skew` seconds; while it isn't `awake`, it does
    nothing.
    """

    name: str
    skew: float
    stores: Stores
    awake: bool = True
    names: int = 1
    seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Until when each lease was, and since when it is known so."""
    copies: dict[str, Copy] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """Its name in leases; each lease that it lost makes it another one."""
        return f"{self.name}-{self.names}"

    @property
    def owned(self) -> list[Copy]:
        """What it takes for its own."""
        return [copy for copy in self.copies.values() if copy.lease is not None]


class Client:
    """A reader by the rules of the protocol.

    Args:
        tells_epoch: whether it says which epoch it knows when it comes back.
    """

    def __init__(self, response_id: str, *, tells_epoch: bool) -> None:
        self.response_id = response_id
        self.held = AssembledText()
        self._entries: list[LogEntry] = []
        """What it was given, frame by frame, before frames joined it."""
        self._tells_epoch = tells_epoch
        self._epoch = 1
        self._copy: Copy | None = None
        self._cursor: Cursor | None = None

    def connect(self, copy: Copy, most: int) -> None:
        """Resume at this copy, if it can tell from where on."""
        self.disconnect()
        log = copy.log
        point = resume_point(
            log, self.held.next_index - 1, self._epoch if self._tells_epoch else None
        )
        if point is None:
            return
        if point.restarted is not None:
            assert point.restarted.from_index == REPLACES_ALL
            # Only who has to begins again.
            assert self._entries != log.entries[: len(self._entries)] or not self._tells_epoch
            self.held, self._entries = AssembledText(), []
            self._hear_of(point.restarted.epoch)
        assert point.next_index == self.held.next_index
        self._hear_of(log.epoch_at(point.next_index - 1))
        self._copy, self._cursor = copy, Cursor(log, point.next_index, most)

    def disconnect(self) -> None:
        """Keep what it holds."""
        self._copy = self._cursor = None

    def is_at(self, copy: Copy) -> bool:
        """Whether it reads this copy."""
        return self._copy is copy

    def read(self, most_frames: int) -> None:
        """Take some frames."""
        if self._cursor is None or self._copy is None:
            return
        for _ in range(most_frames):
            taken = self._cursor.next_entry()
            if taken is None:
                return
            # Each index once: what it holds goes up to the one before.
            assert self._cursor.first == self.held.next_index
            self.held.take(taken, self._cursor.first, self._cursor.last)
            self._entries += self._copy.log.entries[self._cursor.first : self._cursor.next_index]
            if isinstance(taken, Restart):
                self._hear_of(self._copy.log.epoch_at(self._cursor.last))
        if self._tells_epoch:
            # One that doesn't can be taken in by a task that was lost and hasn't noticed, until it
            # resumes elsewhere.
            assert self._entries == self._copy.log.entries[: len(self._entries)]
            there = standing_text(self._copy.log, self.held.next_index)
            assert self.held.contents == there.contents

    def _hear_of(self, epoch: int) -> None:
        self._epoch = max(self._epoch, epoch)
