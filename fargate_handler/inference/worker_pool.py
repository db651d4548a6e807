"""The workers that a handler calls: their addresses, and whose turn it is."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

_logger = logging.getLogger(__name__)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[host]:port`.

    Raises:
        ValueError: it is neither.
    """
    host, _, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    wrong = not host or (":" in host) != bracketed or not (port.isascii() and port.isdecimal())
    if wrong or not 1 <= int(port) <= 65535:
        raise ValueError(f"{address!r} is no host:port")
    return host, int(port)


async def resolve(addresses: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """gRPC's target of each machine that they stand for → the address that named it. A name may stand for several.

    Args:
        known: what was returned before: an address that can't be looked up now, which is logged, stands for what it did.
    """
    found = await asyncio.gather(*map(_resolve_one, addresses))
    targets: dict[str, str] = {}
    for address, looked_up in zip(addresses, found, strict=True):
        stands_for = looked_up if looked_up is not None else [target for target, by in known.items() if by == address]
        targets |= dict.fromkeys(stands_for, address)
    return targets


async def _resolve_one(address: str) -> list[str] | None:
    host, port = split_address(address)
    try:
        rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        _logger.warning("the workers at %s cannot be looked up (%s): those that are known stay", address, error)
        return None
    return [_target(str(row[4][0]), port) for row in rows]


def _target(host: str, port: int) -> str:
    if isinstance(ip_address(host.partition("%")[0]), IPv6Address):
        return f"ipv6:[{host}]:{port}"
    return f"ipv4:{host}:{port}"


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
