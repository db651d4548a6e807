"""The names by which a server may be called.

A page can have its own name lead to this machine once it is loaded (DNS rebinding). To the browser
the server is then the page's own origin: it may read every answer. The called name reveals it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address

from evenflow.stream_core.base.errors import HostNotAllowed

EVERY_HOST = "*"
_LOCALHOST = "localhost"
_LONGEST_ADDRESS = 64
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:]*)(?::[0-9]{0,5})?")


def parse_hosts(text: str) -> tuple[str, ...]:
    """Read `chat.example.com,intranet`, or `*` for every name.

    Raises:
        ValueError: one is not a host's name, or `*` is not alone.
    """
    names = tuple(filter(None, map(str.strip, text.split(","))))
    for name in names:
        if name != EVERY_HOST and _NAME.fullmatch(name) is None:
            raise ValueError(
                "must be names of hosts, chat.example.com,intranet (small letters, no scheme, no "
                f"port), or * for all; {name[:100]!r} is none"
            )
    if EVERY_HOST in names and len(names) > 1:
        raise ValueError("has * beside other names; it stands for all, so it must be alone")
    return names


def is_loopback(host: str) -> bool:
    """Whether a server that listens on this host is reached from its own machine alone."""
    return host == _LOCALHOST or (_is_address(host) and ip_address(host).is_loopback)


class AllowedHosts:
    """The names by which clients may call.

    An address is always allowed: DNS cannot redirect it.

    Args:
        names: the result of `parse_hosts`. None: every name is allowed.
    """

    def __init__(self, names: Collection[str] | None) -> None:
        allows_all = names is None or EVERY_HOST in names
        self._names = None if allows_all else frozenset((_LOCALHOST, *(names or ())))

    def check(self, host: str | None) -> None:
        """Check the header `Host`. Without one the client is no browser.

        Raises:
            HostNotAllowed: it has another name.
        """
        if self._names is None or host is None:
            return
        match = _AUTHORITY.fullmatch(host)
        name = match[1].lower() if match else ""
        if name not in self._names and not _is_address(name.removeprefix("[").removesuffix("]")):
            raise HostNotAllowed(
                f"this server is not called {host[:100]!r}; EVENFLOW_ALLOWED_HOSTS names what it "
                "may be called, and nothing was accepted",
                code="host_not_allowed",
            )


def _is_address(name: str) -> bool:
    return len(name) <= _LONGEST_ADDRESS and _is_short_address(name)


@lru_cache(maxsize=256)
def _is_short_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
