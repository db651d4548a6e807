"""Where a client of the Responses API goes on, by the number of the last event that it has."""

from __future__ import annotations

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.resumption import Progress, Resumption, resume
from evenflow.stream_core.base.errors import Gone, InvalidRequest
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import LAST_EVENT_ID
from evenflow.stream_core.http.http_contract import whole_number
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.protocols.openai_responses.encoder import NOTHING
from evenflow.stream_core.protocols.openai_responses.sequence_numbers import (
    MOST_CLOSING_ENTRIES,
    known_by,
)

STARTING_AFTER = "starting_after"


def last_number(request: web.Request) -> int:
    """The number of the last event that the client has, by the query or `Last-Event-ID`.

    Raises:
        InvalidRequest: it is not a number.
    """
    if STARTING_AFTER in request.query:
        return whole_number(STARTING_AFTER, request.query[STARTING_AFTER], NOTHING)
    return whole_number(LAST_EVENT_ID, request.headers.get(LAST_EVENT_ID), NOTHING)


def check_can_resume(request: web.Request, *, has_key: bool) -> None:
    """Check that a request that makes a response doesn't go on in one, unless its key names it.

    Raises:
        InvalidRequest: it does, or what it has is not a number.
    """
    if last_number(request) != NOTHING and not has_key:
        raise InvalidRequest(
            f"{LAST_EVENT_ID} needs the Idempotency-Key of the response that broke off; nothing "
            "was generated. GET the response, or send its key",
            code="invalid_field",
            param=LAST_EVENT_ID,
        )


async def resumed_after(context: GatewayContext, stream: ResponseStream, number: int) -> Resumption:
    """A response, and where a client goes on in it that has everything up to `number`.

    Raises:
        InvalidRequest: the response never had such an event.
        Gone: what the client has is not on record.
        EvenflowError: as for `resume`.
    """
    known = known_by(number)
    # Of what it has begun the task may be lost before that is on record: then it comes otherwise.
    last = known.last_index + known.begun
    progress = Progress(last, known.epoch, STARTING_AFTER)
    try:
        resumption = await resume(context, stream.response_id, stream.channel, progress)
    except InvalidRequest:
        # The events behind the last entry have numbers, too.
        ended = (await context.orchestrator.find(stream.response_id, stream.channel)).log
        if not ended.closed or known.last_index > ended.next_index + MOST_CLOSING_ENTRIES:
            raise
        progress = progress._replace(after=ended.next_index - 1)
        resumption = await resume(context, stream.response_id, stream.channel, progress)
    if resumption.point.restarted is not None:
        raise Gone(
            "what you have of this response is not on record, since its task was lost; drop it, "
            f"and ask again without {STARTING_AFTER}",
            code="response_restarted",
            param=STARTING_AFTER,
        )
    if known.begun:
        # The rest of that entry's events: those that the client has are left out by their numbers.
        return resumption._replace(point=ResumePoint(min(last, resumption.point.next_index)))
    return resumption
