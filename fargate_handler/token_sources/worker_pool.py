"""Which worker is asked next: of those that are not resting, one with the fewest answers under way from here."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Connection = TypeVar("Connection")

# An address may hide several workers behind a proxy, which sends each call to another of them: where there are fewer addresses,
# the same ones are asked so often before an attempt has failed.
_FEWEST_TRIES = 5


@dataclass(slots=True, eq=False)
class KnownWorker(Generic[Connection]):
    """One of them, or an address that hides several. `continues` and `tools` are None until it has said so itself; `lost`: when
    it was asked last, it could not be reached; `left`: no address names it any more.
    """

    connection: Connection
    outstanding: int = 0
    rests_until: float = 0.0
    continues: bool | None = None
    tools: bool | None = None
    lost: bool = False
    left: bool = False


class WorkerPool(Generic[Connection]):
    """The workers that there are.

    Args:
        connect: makes the connection to a target that an address named.
        rest_seconds: one that failed isn't asked for so long, while there is another.
    """

    def __init__(self, connect: Callable[[str, str], Connection], rest_seconds: float) -> None:
        self._connect = connect
        self._rest_seconds = rest_seconds
        self._workers: dict[str, KnownWorker[Connection]] = {}

    @property
    def workers(self) -> Collection[KnownWorker[Connection]]:
        """All that may be asked."""
        return self._workers.values()

    @property
    def continue_answers(self) -> bool:
        """Whether all that can be reached have said that they go on from the middle of an answer; without any, no."""
        there = [worker for worker in self._workers.values() if not worker.lost]
        return bool(there) and all(worker.continues for worker in there)

    def update(self, targets: Mapping[str, str]) -> list[Connection]:
        """These are the workers now (target → the address that named it); returns the connections to close."""
        for target, address in targets.items():
            if target not in self._workers:
                self._workers[target] = KnownWorker(self._connect(target, address))
        gone = [self._workers.pop(target) for target in tuple(self._workers) if target not in targets]
        for worker in gone:
            worker.left = True
        return [worker.connection for worker in gone if not worker.outstanding]

    def pick(self, now: float, tried: Sequence[KnownWorker[Connection]] = ()) -> KnownWorker[Connection] | None:
        """The one to ask, another than those that were `tried` for this answer; None when that was enough. When all rest, the one
        that has rested longest.
        """
        there = [worker for worker in self._workers.values() if worker not in tried]
        if not there and len(tried) < _FEWEST_TRIES:
            there = list(self._workers.values())
        awake = [worker for worker in there if worker.rests_until <= now]
        if not awake:
            return min(there, key=lambda worker: worker.rests_until, default=None)
        fewest = min(worker.outstanding for worker in awake)
        # By chance among equals: other handlers count their own answers, and shall not all begin with the same worker.
        return random.choice([worker for worker in awake if worker.outstanding == fewest])

    def rest(self, worker: KnownWorker[Connection], now: float) -> None:
        """It could not be reached. What comes back may be another one: what this one said is forgotten."""
        worker.rests_until = now + self._rest_seconds
        worker.continues = worker.tools = None
        worker.lost = True

    def wake(self, worker: KnownWorker[Connection], *, continues: bool, tools: bool) -> None:
        """It is there, and said this."""
        worker.rests_until = 0.0
        worker.continues, worker.tools = continues, tools
        worker.lost = False
