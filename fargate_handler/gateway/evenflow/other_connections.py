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
    message: IncomingMessage,
    response_id: str,
    sender: OpenConnection | None = None,
) -> None:
    """Notify a session's connections to this node of an accepted message.

    Args:
        sender: the connection that sent the message. None: it came by HTTP.
    """
    receivers = [each for each in registry.of(message.channel) if each is not sender]
    if not receivers:
        return
    accepted = SessionMessage(
        type="session.message",
        session_id=message.channel.session,
        message_id=message.message_id,
        previous_message_id=message.previous_message_id,
        response_id=response_id,
        text=message.text,
        replaces=message.replaces,
        parent_message_id=message.parent_message_id,
    )
    for connection in receivers:
        connection.notify(accepted)
