"""What the gateway's parts share: one object, made once, of which clients' connections see half."""

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
    """What a client's connection needs, whatever carries it."""

    measures: DeliveryMeasures
    outbox: Outbox
    orchestrator: Orchestrator
    registry: ConnectionRegistry
    background: Background


@dataclass(frozen=True, slots=True)
class GatewayContext(ClientContext):
    """What the listeners and the endpoints need besides: who may come in, and where this task is reached.

    `ws_url` is set when the public WebSocket address isn't simply `ws_port` of the host
    that the client called; `http_port` is where this task serves its page. `allowed_origins`: whose pages may call
    besides. `node_id` names this task in the cookie by which a load balancer sends a client back to it. `models`:
    the names of the model for OpenAI's clients.
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
