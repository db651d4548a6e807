"""The addresses of this server: where clients reach it, and whose pages and proxies it trusts."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import Self

from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.stream_core.auth.allowed_hosts import AllowedHosts
from evenflow.stream_core.auth.allowed_origins import AllowedOrigins, is_own_page
from evenflow.stream_core.base.client_address import (
    CalledUrl,
    Client,
    RequestHeaders,
    TrustedProxies,
)

_logger = logging.getLogger(__name__)

_MOST_WARNINGS = 8


@dataclass(frozen=True, slots=True)
class Site:
    """This server as its clients, their pages and its proxies see it.

    Args:
        http_port: where this node serves its page.
        http_url: the public base of HTTP calls. None: the address that was called.
        ws_url: the public address of the WebSocket. None: `ws_port` of the host that was called, or
            beside `http_url`.
        metrics_port: serves `/metrics` and nothing else. None: it is at the other ports.
        allowed_origins: other origins whose pages may call.
        allowed_hosts: the names by which this server may be called.
        trusted_proxies: the proxies whose headers about their clients are trusted.
        node_id: this node in the cookie by which a load balancer sends clients back to it.
        cookie_secure: whether cookies are for HTTPS only.
    """

    http_port: int
    http_url: str | None = None
    ws_url: str | None = None
    ws_port: int | None = None
    metrics_port: int | None = None
    allowed_origins: AllowedOrigins = field(default_factory=AllowedOrigins)
    allowed_hosts: AllowedHosts = field(default_factory=lambda: AllowedHosts(None))
    trusted_proxies: TrustedProxies = field(default_factory=TrustedProxies)
    node_id: str = ""
    cookie_secure: bool = False
    _warned_proxies: set[str] = field(default_factory=set, init=False)

    @classmethod
    def of(cls, settings: HandlerSettings, node_id: str) -> Self:
        """The site that the settings describe."""
        http_url, ws_url = settings.public_http_url, settings.public_ws_url
        return cls(
            http_port=settings.http_port,
            http_url=None if http_url is None else str(http_url).rstrip("/"),
            ws_url=None if ws_url is None else str(ws_url),
            ws_port=settings.ws_port,
            metrics_port=settings.metrics_port,
            allowed_origins=AllowedOrigins(settings.allowed_origins),
            allowed_hosts=AllowedHosts(settings.callable_as),
            trusted_proxies=TrustedProxies(settings.trusted_proxies),
            node_id=node_id,
            cookie_secure=settings.cookie_secure,
        )

    def client(self, peer: str, headers: RequestHeaders) -> Client:
        """The client that sent a request. Logs a warning for a proxy that is not trusted.

        Args:
            peer: the address at the other end of the connection.
        """
        client = self.trusted_proxies.client(peer, headers)
        if client.unnamed_proxy:
            self._warn_of_proxy(client.unnamed_proxy)
        return client

    def is_own_page(self, origin: str, host: str) -> bool:
        """Whether a page of `origin` is this server's own.

        Args:
            host: the header `Host`.
        """
        if self.http_url is not None and origin == "/".join(self.http_url.split("/")[:3]):
            return True
        return is_own_page(origin, host, self.http_port)

    def public_urls(self, called: CalledUrl) -> tuple[str, str]:
        """The WebSocket's address and the base of HTTP calls, for a client.

        Args:
            called: the URL that the client used. Without a host both are relative, unless they are
                configured.
        """
        http_url = self.http_url
        if http_url is None:
            scheme, host, prefix = called
            http_url = f"{scheme}://{host}{prefix}" if host else prefix
        if self.ws_url is not None:
            return self.ws_url, http_url
        if self.ws_port is not None and called.host:
            name = re.sub(r":[0-9]+\Z", "", called.host)
            return f"ws://{name}:{self.ws_port}/ws", http_url
        return f"{re.sub('^http', 'ws', http_url)}/ws", http_url

    def _warn_of_proxy(self, address: str) -> None:
        """Log one warning for each untrusted proxy, and few in all: clients can imitate one."""
        if address in self._warned_proxies or len(self._warned_proxies) >= _MOST_WARNINGS:
            return
        self._warned_proxies.add(address)
        _logger.warning(
            "%s forwards requests (X-Forwarded-For or Forwarded), and EVENFLOW_TRUSTED_PROXIES "
            "does not name it. If it is your proxy, name it there: until then all its clients "
            "share the limits of one address, and the scheme and host that it sends are ignored",
            address,
        )
