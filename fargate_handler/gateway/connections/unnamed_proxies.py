"""Logs a warning for each proxy in front of this server that is not trusted."""

from __future__ import annotations

import logging

_logger = logging.getLogger(__name__)

_MOST_WARNINGS = 8


class UnnamedProxies:
    """Logs one warning for each such proxy, and few in all: a client can pretend to be one."""

    def __init__(self) -> None:
        self._warned_of: set[str] = set()

    def note(self, address: str) -> None:
        """Note a request through an untrusted proxy at `address`."""
        if address in self._warned_of or len(self._warned_of) >= _MOST_WARNINGS:
            return
        self._warned_of.add(address)
        _logger.warning(
            "%s forwards requests (X-Forwarded-For or Forwarded), and EVENFLOW_TRUSTED_PROXIES "
            "does not name it. If it is your proxy, name it there: until then all its clients "
            "share the limits of one address, and the scheme and host that it sends are ignored",
            address,
        )
