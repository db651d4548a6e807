"""Finds the client of a request, and the URL that it used, also behind proxies."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from evenflow.stream_core.base.forwarded import (
    MOST_ADDRESSES,
    CalledUrl,
    RequestHeaders,
    read_forwarded,
)

LOCAL_PROXIES = "127.0.0.0/8,::1"
"""The default: a proxy on this machine."""

_SITE_BITS = 64  # what one IPv6 customer has at least: its host part is free to choose

_Address = IPv4Address | IPv6Address


_THIS_MACHINE = "::/64"  # of ::1


def is_of_this_machine(address: str) -> bool:
    """Whether an address, as `counted_address` gives it, is one of this machine."""
    return address.startswith("127.") or address == _THIS_MACHINE


def counted_address(peer: str) -> str:
    """The address that limits count: for IPv6 its /64. That of a Unix socket is unchanged."""
    address = _read(peer)
    return peer if address is None else _counted(address)


class Client(NamedTuple):
    """The client of a request.

    Attributes:
        address: the result of `counted_address`.
        url: the URL that the client used, as far as trusted proxies report it.
        is_forwarded: whether a proxy, trusted or not, has passed the request on.
        is_doubtful: whether an untrusted proxy reports the URL. That is ignored, but `Host` may
            then be wrong, too.
        unnamed_proxy: the address of an apparent proxy that isn't trusted. Empty: there is none.
    """

    address: str
    url: CalledUrl = CalledUrl()
    is_forwarded: bool = False
    is_doubtful: bool = False
    unnamed_proxy: str = ""


class _Proxies(NamedTuple):
    network: IPv4Network | IPv6Network
    hops: int | None


class _Origin(NamedTuple):
    """The client's address, at the end of the chain of trusted proxies.

    Attributes:
        believed: the number of addresses, from the last one on, that trusted proxies wrote.
        is_known: whether all proxies of the chain are named, or their number is.
    """

    address: _Address
    believed: int
    is_known: bool = True


class TrustedProxies:
    """The proxies whose headers about their clients are trusted.

    What stands to the left of what trusted proxies wrote, the client may have made up.

    Args:
        text: addresses and networks, `10.0.0.0/16,::1`. `10.0.0.0/16=2` also says how many proxies
            there are in a row, for those whose other addresses nobody can list: the client's is
            then the second address from the right.

    Raises:
        ValueError: one is not an address or a network, or its number is wrong.
    """

    def __init__(self, text: str = LOCAL_PROXIES) -> None:
        self._proxies = tuple(
            _parsed(entry) for entry in filter(None, map(str.strip, text.split(",")))
        )

    def trusts(self, peer: str) -> bool:
        """Whether a connection from this address is a proxy's."""
        address = _read(peer)
        return address is not None and self._of(address) is not None

    def client(self, peer: str, headers: RequestHeaders) -> Client:
        """The client of a request.

        Args:
            peer: the address at the other end of the connection.
        """
        forwarded, address = read_forwarded(headers), _read(peer)
        if address is None:
            return Client(peer, is_forwarded=forwarded.is_forwarded)  # a Unix socket's
        proxies = self._of(address)
        if proxies is None:
            unnamed = str(address) if forwarded.addresses else ""
            return Client(
                _counted(address),
                is_forwarded=forwarded.is_forwarded,
                is_doubtful=any(map(any, forwarded.urls)),
                unnamed_proxy=unnamed,
            )
        origin = self._origin(address, proxies.hops, forwarded.addresses)
        return Client(
            _counted(origin.address),
            forwarded.url(origin.believed),
            is_forwarded=forwarded.is_forwarded,
            unnamed_proxy="" if origin.is_known else str(origin.address),
        )

    def _origin(self, nearest: _Address, hops: int | None, written: Sequence[str]) -> _Origin:
        """Follow the written addresses from the last one back, to the first that is no proxy's.

        Args:
            nearest: the address of the connected proxy.
            hops: the number of proxies. None: those that are named.
        """
        address, place = nearest, 0
        for place, text in enumerate(reversed(written), start=1):
            sender = _read(text.strip())
            if sender is None:
                break  # no address, but whoever sent it came through the last one that is
            address = sender
            if place == hops:
                break
            if hops is None and self._of(sender) is None:
                # A client can prepend any address, but its own is never in a private network.
                return _Origin(address, place, place == len(written) or sender.is_global)
        return _Origin(address, place)

    def _of(self, address: _Address) -> _Proxies | None:
        return next((known for known in self._proxies if address in known.network), None)


def _parsed(entry: str) -> _Proxies:
    network, counted, hops = entry.partition("=")
    try:
        parsed = ip_network(network)
        if not counted:
            return _Proxies(parsed, None)
        if 1 <= int(hops) <= MOST_ADDRESSES:
            return _Proxies(parsed, int(hops))
    except ValueError:
        pass
    raise ValueError(
        "must be addresses or networks of proxies, 127.0.0.1,10.0.0.0/16,::1, each perhaps with "
        f"how many there are in a row, 10.0.0.0/16=2 (1 to {MOST_ADDRESSES}); {entry[:100]!r} is "
        "none"
    )


def _read(text: str) -> _Address | None:
    """The address of a text that may have a port, as some proxies write it. None: it has none."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    # A socket for both families gives an IPv4 address as one of IPv6.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _counted(address: _Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((address, _SITE_BITS), strict=False))
