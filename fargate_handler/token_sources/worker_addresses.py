"""Where workers are: what the settings say, and what names stand for at the moment."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
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


async def resolve(addresses: Sequence[str]) -> dict[str, str]:
    """gRPC's target of each machine that they stand for → the address that named it. A name may stand for several.

    A name that isn't known at the moment stands for none, and is logged.
    """
    found = await asyncio.gather(*map(_resolve_one, addresses))
    return {target: address for address, targets in zip(addresses, found, strict=True) for target in targets}


async def _resolve_one(address: str) -> list[str]:
    host, port = split_address(address)
    try:
        rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        _logger.warning("the workers at %s cannot be looked up (%s): those that are known stay", address, error)
        return []
    return [_target(str(row[4][0]), port) for row in rows]


def _target(host: str, port: int) -> str:
    if isinstance(ip_address(host.partition("%")[0]), IPv6Address):
        return f"ipv6:[{host}]:{port}"
    return f"ipv4:{host}:{port}"
