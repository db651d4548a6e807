"""What the parts of the gateway share."""

from __future__ import annotations

from dataclasses import dataclass

from fargate_handler.background import Background
from fargate_handler.gateway.connection_registry import ConnectionRegistry
from fargate_handler.gateway.outbox import DeliveryMeasures, Outbox
from fargate_handler.gateway.reconnect_rate import ReconnectRate
from fargate_handler.node_context import NodeContext
from fargate_handler.orchestrator.orchestrator import Orchestrator
from stream_core.policy.agents import Agents
from stream_core.policy.allowed_origins import AllowedOrigins
from stream_core.policy.session_token import SessionTokens, TenantKeys


@dataclass(frozen=True, slots=True)
class ClientContext(NodeContext):
    """What a client's connection needs, over any transport."""

    measures: DeliveryMeasures
    outbox: Outbox
    orchestrator: Orchestrator
    registry: ConnectionRegistry
    background: Background


@dataclass(frozen=True, slots=True)
class GatewayContext(ClientContext):
    """What listeners and endpoints need besides.

    Args:
        ws_url: the public address of the WebSocket. None: `ws_port` of the host that was called.
        http_port: where this task serves its page.
        allowed_origins: other origins whose pages may call.
        node_id: this task in the cookie by which a load balancer sends clients back to it.
        models: the model's names for OpenAI's clients.
    """

    reconnects: ReconnectRate
    tokens: SessionTokens
    tenant_keys: TenantKeys
    http_url: str | None
    ws_url: str | None
    http_port: int
    ws_port: int
    allowed_origins: AllowedOrigins
    node_id: str
    cookie_secure: bool
    models: tuple[str, ...]
    agents: Agents
