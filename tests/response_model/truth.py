"""What must be so, kept apart from any store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from evenflow.stream_core.log.entries import LogEntry
from evenflow.stream_core.log.response_log import ResponseLog
from evenflow.stream_core.stores.response_store import Lease, NodeLease, ResponseHead, StoredEntries


@dataclass
class Answer:
    """A response's owner, and all that its owners have ever written."""

    lease: Lease
    logs: dict[int, ResponseLog] = field(default_factory=dict)
    """By epoch: also those of owners that were lost."""
    record: list[LogEntry] = field(default_factory=list)
    """The longest run of entries that anybody has read in the store."""
    ended: bool = False
    handed_over: set[int] = field(default_factory=set)
    """The epochs whose owners left in order."""

    def check_head(self, head: ResponseHead | None) -> ResponseHead:
        """There is one owner, the one that took over last."""
        assert head is not None
        assert (head.lease, head.ending is not None) == (self.lease, self.ended)
        assert head.hand_overs == len(self.handed_over)
        assert set(head.starts) == set(self.logs)
        assert list(head.starts.values()) == sorted(head.starts.values())
        return head

    def check_entries(self, read: StoredEntries) -> None:
        """Each entry is the one that the owner wrote whose turn it was, and what was read once
        never changes.
        """
        head = self.check_head(read.head)
        for index, entry in enumerate(read.entries, read.first_index):
            (epoch,) = (epoch for epoch in head.starts if head.counts(epoch, index))
            assert entry == self.logs[epoch].entries[index]
        known = self.record[read.first_index :]
        assert list(read.entries[: len(known)]) == known
        if read.first_index <= len(self.record):
            self.record += read.entries[len(known) :]


class Leases:
    """Those of all tasks, by the rules of the port."""

    def __init__(self) -> None:
        self._leases: dict[str, NodeLease] = {}
        self._forgotten: set[str] = set()

    def is_lost(self, owner: str) -> bool:
        """Whether it is never in force again."""
        return owner in self._forgotten or (owner in self._leases and self._leases[owner].lost)

    def covers(self, owner: str) -> bool:
        """Whether what its task owns is not to be taken over."""
        return owner in self._leases and not self.is_lost(owner)

    def renew(self, owner: str, until: float, address: str) -> None:
        """It is good for longer."""
        known = self._leases.get(owner)
        if known is None or known.until <= until:
            self._leases[owner] = NodeLease(owner, until, address=address)

    def lose(self, owner: str) -> None:
        """It was declared lost, or the task left."""
        self._leases[owner] = replace(self._leases.get(owner, NodeLease(owner, 0.0)), lost=True)

    def forget(self, owner: str) -> None:
        """Nobody asks for it any more."""
        if self.is_lost(owner):
            self._forgotten.add(owner)

    def remembered(self, leases: Iterable[NodeLease]) -> list[NodeLease]:
        """Those that were not forgotten.

        Another may be listed again, when it is found once more to be lost.
        """
        return [lease for lease in leases if lease.owner not in self._forgotten]

    def all(self) -> list[NodeLease]:
        """What must be listed."""
        return self.remembered(self._leases.values())
