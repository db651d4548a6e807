"""The `presence` frame: the readers of a response."""

from __future__ import annotations

from evenflow.fargate_handler.gateway.connections.context import ClientContext
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.delivery.presence import Present
from evenflow.stream_core.protocols.evenflow.messages import PresenceNotice, PresentClient
from evenflow.stream_core.protocols.evenflow.session_init import iso_time


def presence_notice(
    context: ClientContext, channel: Channel, response_id: str, present: Present, sees_names: bool
) -> PresenceNotice:
    """The frame with the readers of a response.

    Args:
        sees_names: whether the client may see the names of readers.
    """
    began = context.wall_time() - context.monotonic()
    return PresenceNotice(
        type="presence",
        session_id=channel.session,
        response_id=response_id,
        readers=[
            PresentClient(
                user=user if sees_names else "",
                transport=transport,
                since=iso_time(round(began + since)),
            )
            for user, transport, since in present.readers
        ],
        count=present.count,
    )
