"""Where workers are: what the settings say, and what names stand for at the moment."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address, ip_address

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
