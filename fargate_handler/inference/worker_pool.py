"""The workers that a handler knows: their addresses, and which one is called next."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

from evenflow.fargate_handler.settings.model_values import split_address

_logger = logging.getLogger(__name__)


async def resolve(addresses: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """gRPC's targets by machine, each with the address that named it. A name may stand for several.

    Args:
        known: the last result. An address that can't be looked up now keeps its targets, and that
            is logged.
    """
    found = await asyncio.gather(*map(_resolve_one, addresses))
    targets: dict[str, str] = {}
    for address, looked_up in zip(addresses, found, strict=True):
        stands_for = (
            looked_up
            if looked_up is not None
            else [target for target, by in known.items() if by == address]
        )
        targets |= dict.fromkeys(stands_for, address)
    return targets


async def _resolve_one(address: str) -> list[str] | None:
    host, port = split_address(address)
    try:
        rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        _logger.warning(
            "the workers at %s cannot be looked up (%s): the known ones stay", address, error
        )
        return None
    return [_target(str(row[4][0]), port) for row in rows]


def _target(host: str, port: int) -> str:
    if isinstance(ip_address(host.partition("%")[0]), IPv6Address):
        return f"ipv6:[{host}]:{port}"
    return f"ipv4:{host}:{port}"


Connection = TypeVar("Connection")

# An address may be a proxy that sends each call to another worker. So with fewer addresses, the
# same ones are tried up to so often before an attempt has failed.
_FEWEST_TRIES = 5


@dataclass(slots=True, eq=False)
class KnownWorker(Generic[Connection]):
    """A worker, or an address that hides several.

    Args:
        continues, tools: what it can do. None until it has reported them. A lost worker keeps its
            last `continues`.
        lost: whether the last call could not reach it.
        left: whether no address names it any more.
    """

    connection: Connection
    outstanding: int = 0
    rests_until: float = 0.0
    continues: bool | None = None
    tools: bool | None = None
    lost: bool = False
    left: bool = False


class WorkerPool(Generic[Connection]):
    """The workers that can be called.

    Args:
        connect: makes a connection, from a target and the address that named it.
        rest_seconds: after a failure a worker rests for so long, while there is another one.
    """

    def __init__(self, connect: Callable[[str, str], Connection], rest_seconds: float) -> None:
        self._connect = connect
        self._rest_seconds = rest_seconds
        self._workers: dict[str, KnownWorker[Connection]] = {}

    @property
    def workers(self) -> Collection[KnownWorker[Connection]]:
        """All known workers."""
        return self._workers.values()

    @property
    def continue_answers(self) -> bool:
        """Whether all reachable workers have said that they continue answers. False without any.

        If none is reachable, their last reports count: behind one address other workers go on.
        A worker refuses a beginning that it can't continue.
        """
        workers = [worker for worker in self._workers.values() if not worker.lost]
        workers = workers or list(self._workers.values())
        return bool(workers) and all(worker.continues for worker in workers)

    def update(self, targets: Mapping[str, str]) -> list[Connection]:
        """Set the workers: addresses by target. Returns the connections to close."""
        for target, address in targets.items():
            if target not in self._workers:
                self._workers[target] = KnownWorker(self._connect(target, address))
        gone = [
            self._workers.pop(target) for target in tuple(self._workers) if target not in targets
        ]
        for worker in gone:
            worker.left = True
        return [worker.connection for worker in gone if not worker.outstanding]

    def pick(
        self, now: float, tried: Sequence[KnownWorker[Connection]] = ()
    ) -> KnownWorker[Connection] | None:
        """The worker to call next: the least busy one that doesn't rest and was not `tried`.

        If all rest, it is the one that has rested longest. None after enough tries.
        """
        there = [worker for worker in self._workers.values() if worker not in tried]
        if not there and len(tried) < _FEWEST_TRIES:
            there = list(self._workers.values())
        awake = [worker for worker in there if worker.rests_until <= now]
        if not awake:
            return min(there, key=lambda worker: worker.rests_until, default=None)
        fewest = min(worker.outstanding for worker in awake)
        # At random among equals, so that several handlers don't all begin with the same worker.
        return random.choice([worker for worker in awake if worker.outstanding == fewest])

    def rest(self, worker: KnownWorker[Connection], now: float) -> None:
        """Let a worker rest that could not be reached. It may come back as another one."""
        worker.rests_until = now + self._rest_seconds
        worker.tools = None
        worker.lost = True

    def wake(self, worker: KnownWorker[Connection], *, continues: bool, tools: bool) -> None:
        """Note that a worker can be reached, and what it can do."""
        worker.rests_until = 0.0
        worker.continues, worker.tools = continues, tools
        worker.lost = False
