"""What the parts of the gateway share."""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.fargate_handler.gateway.bodies.reading_work import ReadingWork
from evenflow.fargate_handler.gateway.connections.accepted_connections import AcceptedConnections
from evenflow.fargate_handler.gateway.connections.access_control import AccessControl
from evenflow.fargate_handler.gateway.connections.connection_registry import ConnectionRegistry
from evenflow.fargate_handler.gateway.connections.outbox import DeliveryMeasures, Outbox
from evenflow.fargate_handler.gateway.connections.reconnect_rate import ReconnectRate
from evenflow.fargate_handler.gateway.connections.site import Site
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.orchestrator import Orchestrator
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.base.agents import Agents
from evenflow.stream_core.bounds.call_rates import CallRates


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


@dataclass(frozen=True, slots=True)
class GatewayContext(ClientContext):
    """What listeners and endpoints need besides.

    Args:
        reconnects: the rate at which clients may come back.
        agents: those that sessions may choose.
    """

    accepted: AcceptedConnections
    access: AccessControl
    site: Site
    reconnects: ReconnectRate
    agents: Agents
