"""Tells a session's other connections what happens in it: they show the same conversation."""

from __future__ import annotations

from evenflow.fargate_handler.gateway.connections.connection_registry import (
    ConnectionRegistry,
    OpenConnection,
)
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.stream_core.protocols.evenflow.messages import SessionMessage


def tell_others(
    registry: ConnectionRegistry,
    event: IncomingMessage,
    response_id: str,
    sender: OpenConnection | None = None,
) -> None:
    """Tell a session's connections to this task that one of its messages was accepted.

    Args:
        sender: the connection over which the message came. None: it came by HTTP.
    """
    others = [each for each in registry.of(event.channel) if each is not sender]
    if not others:
        return
    accepted = SessionMessage(
        type="session.message",
        session_id=event.channel.session,
        message_id=event.message_id,
        previous_message_id=event.previous_message_id,
        response_id=response_id,
        text=event.text,
        replaces=event.replaces,
        parent_message_id=event.parent_message_id,
    )
    for connection in others:
        connection.notify(accepted)
