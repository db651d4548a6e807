"""Sends accepted messages to the session's other connections, which show the conversation."""

from __future__ import annotations

from evenflow.fargate_handler.gateway.connections.connection_registry import (
    ConnectionRegistry,
    OpenConnection,
)
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.stream_core.protocols.evenflow.messages import SessionMessage


def notify_others(
    registry: ConnectionRegistry,
    event: IncomingMessage,
    response_id: str,
    sender: OpenConnection | None = None,
) -> None:
    """Notify a session's connections to this node of an accepted message.

    Args:
        sender: the connection that sent the message. None: it came by HTTP.
    """
    receivers = [each for each in registry.of(event.channel) if each is not sender]
    if not receivers:
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
    for connection in receivers:
        connection.notify(accepted)
