"""Resumes the stream of a request that is sent again with its `Idempotency-Key`."""

from __future__ import annotations

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.resumption import Progress, Resumption, resume
from evenflow.stream_core.base.errors import Gone, InvalidRequest
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import LAST_EVENT_ID, EventId
from evenflow.stream_core.log.response_log import NOTHING_YET


def last_event(header: str | None, *, has_key: bool) -> EventId:
    """The last event that the client has received. Without the header, it has none.

    Raises:
        InvalidRequest: it is not the id of a chunk, or there is no key that names the response.
    """
    if not header:
        return EventId(NOTHING_YET, 1)
    last = EventId.parse(header, ends=False)
    if not has_key:
        raise InvalidRequest(
            f"{LAST_EVENT_ID} needs the Idempotency-Key of the response that broke off; nothing "
            "was generated",
            code="invalid_field",
            param=LAST_EVENT_ID,
        )
    return last


async def resume_appending(
    context: GatewayContext, stream: ResponseStream, last: EventId
) -> Resumption:
    """Where a client resumes after the event `last`, if it can't retract text.

    Raises:
        Gone: what it has is not on record.
        EvenflowError: as for `resume`.
    """
    progress = Progress(last.last_index, last.epoch, LAST_EVENT_ID)
    resumption = await resume(context, stream.response_id, stream.channel, progress)
    if resumption.point.restarted is not None:
        raise _replaced()
    return resumption


def _replaced() -> Gone:
    return Gone(
        "what you have of this response is not on record, since its node was lost; drop it, and "
        f"ask with the same Idempotency-Key and without {LAST_EVENT_ID}",
        code="response_restarted",
        param=LAST_EVENT_ID,
    )
