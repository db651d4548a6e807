"""Finds the client of a request, and the URL that it used, also behind proxies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple, Protocol

FORWARDED_FOR = "X-Forwarded-For"
"""The header to which each proxy appends the address that called it."""

_PROTO, _HOST, _PREFIX = "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Prefix"
_STANDARD, _VIA = "Forwarded", "Via"
# A client may have written thousands of addresses before those of proxies.
MOST_ADDRESSES, _LONGEST_STANDARD = 9, 2_048
_SCHEMES = ("http", "https")
# A name or an address, with or without a port.
_AUTHORITY = re.compile(r"(?:[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_PATH = re.compile(r"(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~%-]{1,100}){1,8}")
# RFC 7239, 4: elements, separated by commas, of pairs, separated by semicolons.
_PAIR_OR_COMMA = re.compile(r'([A-Za-z]+)=("(?:[^"\\]|\\.)*"|[^",;\s]*)|,')


class RequestHeaders(Protocol):
    """The headers of a request. Several may have one name."""

    def __contains__(self, name: object, /) -> bool:
        """Whether there is one of this name."""

    def getall(self, name: str, default: tuple[()], /) -> Sequence[str]:
        """All values of this name."""


class CalledUrl(NamedTuple):
    """The URL that a client used, up to the path of the call. Empty if it is unknown."""

    scheme: str = ""
    host: str = ""
    prefix: str = ""


class Forwarded(NamedTuple):
    """The headers of proxies, which a client may have forged.

    Attributes:
        addresses: the client's address of each proxy. The nearest proxy wrote the last one.
        urls: the URL called at each proxy, one for each address; or only that of the first proxy.
        is_forwarded: whether a header of any proxy is present.
    """

    addresses: Sequence[str] = ()
    urls: Sequence[CalledUrl] = ()
    is_forwarded: bool = False

    def url(self, trusted_count: int) -> CalledUrl:
        """The URL that the client used.

        Args:
            trusted_count: the number of last addresses that trusted proxies wrote.
        """
        if not self.urls:
            return CalledUrl()
        return self.urls[-min(len(self.urls), max(1, trusted_count))]


def read_forwarded(headers: RequestHeaders) -> Forwarded:
    """Read the headers of proxies. `Forwarded` counts only if there is no `X-Forwarded-…`."""
    url = CalledUrl(
        _scheme(_first(headers, _PROTO)),
        authority(_first(headers, _HOST)),
        _prefix(headers.getall(_PREFIX, ())),
    )
    if FORWARDED_FOR in headers or any(url):
        addresses = _last_addresses(headers.getall(FORWARDED_FOR, ()))
        return Forwarded(addresses, (url,) if any(url) else (), is_forwarded=True)
    elements = [element for line in headers.getall(_STANDARD, ()) for element in _elements(line)]
    if not elements:
        return Forwarded(is_forwarded=_STANDARD in headers or _VIA in headers)
    elements = elements[-MOST_ADDRESSES:]
    return Forwarded(
        [element.get("for", "") for element in elements],
        [
            CalledUrl(_scheme(element.get("proto", "")), authority(element.get("host", "")))
            for element in elements
        ],
        is_forwarded=True,
    )


def _last_addresses(lines: Sequence[str]) -> Sequence[str]:
    """The last addresses in the lines of `X-Forwarded-For`."""
    return ",".join(lines).rsplit(",", MOST_ADDRESSES)[-MOST_ADDRESSES:] if lines else ()


def authority(text: str) -> str:
    """Return `text` if it is a host, with or without a port. Otherwise an empty string."""
    return text if _AUTHORITY.fullmatch(text) else ""


def _first(headers: RequestHeaders, name: str) -> str:
    """The value of the first of several proxies, which the client called."""
    lines = headers.getall(name, ())
    return lines[0].partition(",")[0].strip() if lines else ""


def _scheme(text: str) -> str:
    return text.lower() if text.lower() in _SCHEMES else ""


def _prefix(lines: Sequence[str]) -> str:
    """The path prefixes that proxies removed, joined in their order."""
    parts = ",".join(lines).split(",") if lines else ()
    path = "".join(part.strip().rstrip("/") for part in parts)
    return path if _PATH.fullmatch(path) else ""


def _elements(line: str) -> Iterator[dict[str, str]]:
    if len(line) > _LONGEST_STANDARD:
        return
    element: dict[str, str] = {}
    for match in _PAIR_OR_COMMA.finditer(line):
        if match[1] is None:
            yield element
            element = {}
        else:
            element[match[1].lower()] = _unquoted(match[2])
    yield element


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


LOCAL_PROXIES = "127.0.0.0/8,::1"
"""The default: a proxy on this machine."""

_SITE_BITS = 64  # what one IPv6 customer has at least: its host part is free to choose

_Address = IPv4Address | IPv6Address


_THIS_MACHINE = "::/64"  # of ::1


def is_of_this_machine(address: str) -> bool:
    """Whether an address of `counted_address` is one of this machine."""
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


class _ForwardedOrigin(NamedTuple):
    """The client's address, at the end of the chain of trusted proxies.

    Attributes:
        trusted_count: the number of addresses, from the last one on, that trusted proxies wrote.
        is_known: whether all proxies of the chain are named, or their number is.
    """

    address: _Address
    trusted_count: int
    is_known: bool = True


class TrustedProxies:
    """The proxies with trusted headers about their clients.

    Entries to the left of those of trusted proxies may be forged by the client.

    Args:
        text: addresses and networks, `10.0.0.0/16,::1`. `10.0.0.0/16=2` also sets the number of
            proxies in a row, for proxies with addresses that can't be listed. Then the client's
            is the second address from the right.

    Raises:
        ValueError: one is not an address or a network, or its number is wrong.
    """

    def __init__(self, text: str = LOCAL_PROXIES) -> None:
        self._proxies = tuple(
            _parsed(entry) for entry in filter(None, map(str.strip, text.split(",")))
        )

    def trusts(self, peer: str) -> bool:
        """Whether a connection from this address is a proxy's."""
        address = _read_peer(peer)
        return address is not None and self._of(address) is not None

    def client(self, peer: str, headers: RequestHeaders) -> Client:
        """The client of a request.

        Args:
            peer: the address at the other end of the connection.
        """
        forwarded, address = read_forwarded(headers), _read_peer(peer)
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
            forwarded.url(origin.trusted_count),
            is_forwarded=forwarded.is_forwarded,
            unnamed_proxy="" if origin.is_known else str(origin.address),
        )

    def _origin(
        self, nearest: _Address, hops: int | None, forwarded_addresses: Sequence[str]
    ) -> _ForwardedOrigin:
        """Follow the written addresses from the last one back, to the first that is no proxy's.

        Args:
            nearest: the address of the connected proxy.
            hops: the number of proxies. None: those that are named.
        """
        address, place = nearest, 0
        for place, text in enumerate(reversed(forwarded_addresses), start=1):
            sender = _read(text.strip())
            if sender is None:
                break  # no address: the request came through the last valid one
            address = sender
            if place == hops:
                break
            if hops is None and self._of(sender) is None:
                # A client can prepend any address, but its own is never in a private network.
                return _ForwardedOrigin(
                    address, place, place == len(forwarded_addresses) or sender.is_global
                )
        return _ForwardedOrigin(address, place)

    def _of(self, address: _Address) -> _Proxies | None:
        return next((proxy for proxy in self._proxies if address in proxy.network), None)


def _parsed(entry: str) -> _Proxies:
    network, count_text, hops = entry.partition("=")
    try:
        parsed = ip_network(network)
        if not count_text:
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
    # A socket for both families reports an IPv4 address as one of IPv6.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


# Behind a proxy all connections have a few addresses.
_read_peer = lru_cache(maxsize=256)(_read)


def _counted(address: _Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((address, _SITE_BITS), strict=False))
