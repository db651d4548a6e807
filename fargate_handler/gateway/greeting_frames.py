"""The frames that open a session and a response on a WebSocket."""

from __future__ import annotations

from fargate_handler.gateway.context import GatewayContext
from stream_core.messages import ResponseStart, ResponseSummary, SessionLimits, SessionReady
from stream_core.response_stream import ResponseStream
from stream_core.session import Session
from stream_core.session_init import iso_time


def ready_frame(context: GatewayContext, session: Session) -> SessionReady:
    """`session.ready`: the limits, and what this task holds of the session."""
    orchestrator, limits, claims = context.orchestrator, context.limits, session.claims
    return SessionReady(
        type="session.ready",
        session_id=claims.channel.session,
        protocol=session.dialect.name,
        expires_at=iso_time(claims.expires_at),
        last_message_id=orchestrator.last_message_id(claims.channel),
        limits=SessionLimits(
            message_bytes=limits.message_bytes,
            messages_in_flight=limits.messages_in_flight_per_session,
            batch_window_ms=limits.batch_window_ms,
            heartbeat_seconds=limits.heartbeat_seconds,
            pong_timeout_seconds=limits.pong_timeout_seconds,
        ),
        responses=[
            ResponseSummary(
                response_id=stream.response_id,
                message_id=stream.message_id,
                status=stream.state,
                next_index=stream.log.next_index,
            )
            for stream in orchestrator.responses.of(claims.channel)
        ],
    )


def start_frame(stream: ResponseStream, next_index: int, duplicate: bool, number: int | None) -> ResponseStart:
    """`chat.response.start`; `number` stands for the response's id in the compact subprotocol."""
    return ResponseStart(
        type="chat.response.start",
        session_id=stream.channel.session,
        response_id=stream.response_id,
        message_id=stream.message_id,
        status=stream.state,
        next_index=next_index,
        duplicate=duplicate,
        stream=number,
        epoch=stream.log.epoch_at(next_index - 1),
        via=stream.via,
    )
