"""Reads the headers of proxies: the addresses of their clients, and the URL that was called.

Most send `X-Forwarded-For`, `-Proto`, `-Host` and `-Prefix`; RFC 7239 has one header `Forwarded`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
    """The URL that a client used, up to the path of the call. Empty where it isn't known."""

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

    def url(self, believed: int) -> CalledUrl:
        """The URL that the client used.

        Args:
            believed: the number of addresses, from the last one on, that trusted proxies wrote.
        """
        if not self.urls:
            return CalledUrl()
        return self.urls[-min(len(self.urls), max(1, believed))]


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
    elements = [each for line in headers.getall(_STANDARD, ()) for each in _elements(line)]
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
    for found in _PAIR_OR_COMMA.finditer(line):
        if found[1] is None:
            yield element
            element = {}
        else:
            element[found[1].lower()] = _unquoted(found[2])
    yield element


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
