"""The pool of workers: resolves their addresses, and picks the next worker to call."""

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


async def resolve(addresses: Sequence[str], last_targets: Mapping[str, str]) -> dict[str, str]:
    """Resolve addresses to gRPC targets, each with its address. A name may have several targets.

    Args:
        last_targets: the last result. An address that can't be looked up keeps its targets; that
            is logged.
    """
    results = await asyncio.gather(*map(_resolve_one, addresses))
    targets: dict[str, str] = {}
    for address, result in zip(addresses, results, strict=True):
        targets_of_address = (
            result
            if result is not None
            else [target for target, by in last_targets.items() if by == address]
        )
        targets |= dict.fromkeys(targets_of_address, address)
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
# same ones are tried up to this number of times before an attempt has failed.
_FEWEST_TRIES = 5


@dataclass(slots=True, eq=False)
class KnownWorker(Generic[Connection]):
    """A worker, or an address with several workers behind it.

    Args:
        continues, tools: its capabilities. None until it has reported them. A lost worker keeps its
            last `continues`.
        is_lost: whether the last call could not reach it.
        is_removed: whether no address resolves to it any more.
    """

    connection: Connection
    outstanding: int = 0
    rests_until: float = 0.0
    continues: bool | None = None
    tools: bool | None = None
    is_lost: bool = False
    is_removed: bool = False


class WorkerPool(Generic[Connection]):
    """The workers that can be called.

    Args:
        connect: makes a connection, from a target and the address that named it.
        rest_seconds: after a failure a worker is not called for this time, if there is another one.
    """

    def __init__(self, connect: Callable[[str, str], Connection], rest_seconds: float) -> None:
        self._connect = connect
        self._rest_seconds = rest_seconds
        self._workers: dict[str, KnownWorker[Connection]] = {}

    @property
    def workers(self) -> Collection[KnownWorker[Connection]]:
        """All workers of the pool."""
        return self._workers.values()

    @property
    def continue_answers(self) -> bool:
        """Whether all reachable workers report that they continue answers. False without any.

        If none is reachable, the last reports count: one address may have other workers behind it.
        A worker rejects a prefix that it can't continue.
        """
        workers = [worker for worker in self._workers.values() if not worker.is_lost]
        workers = workers or list(self._workers.values())
        return bool(workers) and all(worker.continues for worker in workers)

    def update(self, targets: Mapping[str, str]) -> list[Connection]:
        """Set the workers: addresses by target. Returns the connections to close."""
        for target, address in targets.items():
            if target not in self._workers:
                self._workers[target] = KnownWorker(self._connect(target, address))
        removed_workers = [
            self._workers.pop(target) for target in tuple(self._workers) if target not in targets
        ]
        for worker in removed_workers:
            worker.is_removed = True
        return [worker.connection for worker in removed_workers if not worker.outstanding]

    def pick(
        self, now: float, tried: Sequence[KnownWorker[Connection]] = ()
    ) -> KnownWorker[Connection] | None:
        """The worker to call next: the least busy one that doesn't rest and was not `tried`.

        If all rest, it is the one that has rested longest. None after enough tries.
        """
        candidates = [worker for worker in self._workers.values() if worker not in tried]
        if not candidates and len(tried) < _FEWEST_TRIES:
            candidates = list(self._workers.values())
        available = [worker for worker in candidates if worker.rests_until <= now]
        if not available:
            return min(candidates, key=lambda worker: worker.rests_until, default=None)
        fewest = min(worker.outstanding for worker in available)
        # At random among equals, so that several handlers don't all begin with the same worker.
        return random.choice([worker for worker in available if worker.outstanding == fewest])

    def rest(self, worker: KnownWorker[Connection], now: float) -> None:
        """Pause a worker that could not be reached. Another one may return at its address."""
        worker.rests_until = now + self._rest_seconds
        worker.tools = None
        worker.is_lost = True

    def wake(self, worker: KnownWorker[Connection], *, continues: bool, tools: bool) -> None:
        """Record that a worker can be reached, and its capabilities."""
        worker.rests_until = 0.0
        worker.continues, worker.tools = continues, tools
        worker.is_lost = False
