"""What the parts of the gateway share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from evenflow.fargate_handler.gateway.bodies.reading_work import ReadingWork
from evenflow.fargate_handler.gateway.connections.accepted_connections import AcceptedConnections
from evenflow.fargate_handler.gateway.connections.access_grant import AccessGrant
from evenflow.fargate_handler.gateway.connections.address_turns import AddressTurns
from evenflow.fargate_handler.gateway.connections.connection_registry import ConnectionRegistry
from evenflow.fargate_handler.gateway.connections.identity_keys import IdentityKeys
from evenflow.fargate_handler.gateway.connections.outbox import DeliveryMeasures, Outbox
from evenflow.fargate_handler.gateway.connections.reconnect_rate import ReconnectRate
from evenflow.fargate_handler.gateway.connections.unnamed_proxies import UnnamedProxies
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.orchestrator import Orchestrator
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.auth.allowed_hosts import AllowedHosts
from evenflow.stream_core.auth.allowed_origins import AllowedOrigins, is_own_page
from evenflow.stream_core.auth.session_token import SessionTokens, token_expired
from evenflow.stream_core.base.agents import Agents
from evenflow.stream_core.base.client_address import (
    CalledUrl,
    Client,
    RequestHeaders,
    TrustedProxies,
)
from evenflow.stream_core.bounds.address_rates import AddressRates
from evenflow.stream_core.bounds.call_rates import CallRates
from evenflow.stream_core.bounds.node_load import LoadFigure
from evenflow.stream_core.protocols.evenflow.session_init import OPEN_TENANT
from evenflow.stream_core.tenants.access import check_origin, usable_models


@dataclass(frozen=True, slots=True)
class ClientContext(NodeContext):
    """What a client connection needs over any transport.

    Args:
        work: reads large requests.
        calls: the call rates of each session, key and address.
    """

    measures: DeliveryMeasures
    outbox: Outbox
    orchestrator: Orchestrator
    registry: ConnectionRegistry
    work: ReadingWork
    calls: CallRates
    background: Background

    def check_grant(self, grant: AccessGrant) -> None:
        """Check that a credential is still valid, as far as this task knows.

        Raises:
            AuthenticationFailed: it has expired, or its key is no longer valid.
            NotPermitted: its tenant was removed.
            Gone: its session was ended.
        """
        if self.wall_time() >= grant.expires_at:
            raise token_expired()
        self.orchestrator.check_access(grant.tenant, grant.key, grant.session)


@dataclass(frozen=True, slots=True)
class GatewayContext(ClientContext):
    """What listeners and endpoints need besides.

    Args:
        http_url: the public base of HTTP calls. None: the address that was called.
        ws_url: the public address of the WebSocket. None: `ws_port` of the host that was called, or
            beside `http_url`.
        http_port: where this task serves its page.
        trusted_proxies: the proxies whose headers about their clients are trusted.
        metrics_port: where there is `/metrics` and nothing else. None: it is at the other ports.
        sessions_opened: the rate at which each address opens sessions without a key.
        allowed_origins: other origins whose pages may call.
        allowed_hosts: the names by which this server may be called.
        drain_key: what `POST /drain` needs. None: there is no such path.
        node_id: this task in the cookie by which a load balancer sends clients back to it.
        identities: who is believed beside tenants' keys. None: nobody.
        store_is_lost: whether the file of the stores was deleted.
        models: the model's names for OpenAI's clients.
    """

    accepted: AcceptedConnections
    load: LoadFigure
    turns: AddressTurns
    trusted_proxies: TrustedProxies
    reconnects: ReconnectRate
    sessions_opened: AddressRates
    tokens: SessionTokens
    http_url: str | None
    ws_url: str | None
    http_port: int
    ws_port: int | None
    metrics_port: int | None
    allowed_origins: AllowedOrigins
    allowed_hosts: AllowedHosts
    drain_key: str | None
    node_id: str
    cookie_secure: bool
    models: tuple[str, ...]
    agents: Agents
    identities: IdentityKeys | None = None
    store_is_lost: Callable[[], bool] = lambda: False
    unnamed_proxies: UnnamedProxies = field(default_factory=UnnamedProxies)

    def client(self, peer: str, headers: RequestHeaders) -> Client:
        """The client that sent a request. Logs a warning for a proxy that is not trusted.

        Args:
            peer: the address at the other end of the connection.
        """
        client = self.trusted_proxies.client(peer, headers)
        if client.unnamed_proxy:
            self.unnamed_proxies.note(client.unnamed_proxy)
        return client

    def counted_tenant(self, tenant_id: str) -> str:
        """The tenant that calls are counted for.

        Where no tenant has a key, clients can make up names of tenants. So all are counted as one.
        """
        return OPEN_TENANT if self.tenants.open_to_all else tenant_id

    def sender(self, tenant_id: str, address: str) -> tuple[str, str]:
        """The tenant and the address that messages and connections are counted for."""
        return self.counted_tenant(tenant_id), address

    def is_own_page(self, origin: str, host: str) -> bool:
        """Whether a page of `origin` is this server's own.

        Args:
            host: the header `Host`.
        """
        if self.http_url is not None and origin == "/".join(self.http_url.split("/")[:3]):
            return True
        return is_own_page(origin, host, self.http_port)

    def check_origin(self, tenant_id: str, origin: str | None, host: str) -> None:
        """Check the page that uses a tenant's key or token.

        Args:
            origin, host: the headers `Origin` and `Host`.

        Raises:
            OriginNotAllowed: it is another's than this server's, and none of the tenant's.
        """
        if origin is not None and not self.is_own_page(origin, host):
            check_origin(self.tenants.of(tenant_id), origin)

    def models_of(self, tenant_id: str) -> tuple[str, ...]:
        """The models that a tenant's requests may name."""
        return usable_models(self.tenants.of(tenant_id), self.models)

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
