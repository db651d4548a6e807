"""`GET /chat/message/{response_id}/events`: a response as server-sent events."""

from __future__ import annotations

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.resumption import Progress
from evenflow.fargate_handler.gateway.evenflow.client_reader import start_frame
from evenflow.fargate_handler.gateway.http.verified_request import (
    epoch_of_query,
    number_of_query,
    payer_of,
    requested_resumption,
)
from evenflow.fargate_handler.gateway.sse.event_stream import EventStream
from evenflow.stream_core.base.errors import Overloaded
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import LAST_EVENT_ID, EventId
from evenflow.stream_core.protocols.evenflow.frames import EventEncoder

NEXT_INDEX_HEADER = "Evenflow-Next-Index"
"""The header with the number of entries when the stream began."""


class EventsEndpoint:
    """Streams a response. Every event has an id, so that `Last-Event-ID` resumes."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def get(self, request: web.Request) -> web.StreamResponse:
        """The events after the last one that the client has."""
        context, last = self._context, _last_event(request)
        check_stays(request, context)
        # Only replicas ask for entries that are not joined. `CallIntake` has checked their token.
        is_from_replica = number_of_query(request, "joined", 1) == 0
        progress = Progress(last.last_index, last.epoch, LAST_EVENT_ID)
        stream, point = await requested_resumption(request, context, progress)
        if stream.log.closed and last.end and point.next_index == stream.log.next_index:
            # The client has everything. After a 204 an EventSource does not reconnect.
            return web.Response(status=204)
        encoder = EventEncoder(
            stream, point, context.limits.frame_characters, joined=not is_from_replica
        )
        headers = {NEXT_INDEX_HEADER: str(stream.log.next_index)}
        answer = EventStream(
            context,
            request,
            encoder,
            headers,
            at_once=True,
            for_node=is_from_replica,
            start=None if is_from_replica else _start_event,
            payer=None if is_from_replica else payer_of(request, context.access),
        )
        if not is_from_replica:
            return await answer.write(stream)
        replicated_at = request.query.get("task")
        with context.orchestrator.presence.replicated(stream.response_id, replicated_at):
            return await answer.write(stream)


def check_stays(request: web.Request, context: GatewayContext) -> None:
    """Check that a reader that leaves a draining node has not reached another draining node.

    Raises:
        Overloaded: this node drains, too.
    """
    if request.query.get("moving") and context.orchestrator.draining:
        raise Overloaded(
            "this node is draining, too; nothing was lost: keep reading the old stream, and open "
            "the next one a little later",
            code="draining",
            retry_after_ms=1000,
        )


def _start_event(stream: ResponseStream, next_index: int) -> bytes:
    """The start event, without an id: the reader's resume point stays."""
    frame = start_frame(stream, next_index, None, duplicate=False)
    return b"event: %b\ndata: %b\n\n" % (frame.type.encode(), frame.to_json())


def _last_event(request: web.Request) -> EventId:
    """The id in `Last-Event-ID`, otherwise in the query. The query must be right in any case."""
    of_query = EventId(number_of_query(request, "after", -1, lowest=-1), epoch_of_query(request))
    header = request.headers.get(LAST_EVENT_ID)
    return EventId.parse(header) if header else of_query
