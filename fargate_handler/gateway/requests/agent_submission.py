"""Submits the requests of interfaces: each becomes a message, and the next one of its channel."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.senders import Sender, counted_caller, reading_line
from evenflow.fargate_handler.gateway.requests.agent_request import AgentRequest
from evenflow.fargate_handler.gateway.requests.submission import (
    check_may_repeat,
)
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage, ReceivedRequest
from evenflow.fargate_handler.orchestrator.orchestrator import Submission
from evenflow.stream_core.base.channel import INTERFACE, Channel, MessageKind
from evenflow.stream_core.base.errors import Conflict, Overloaded

# How often another request of the same chat may be quicker.
_TRIES = 4


async def submit_as_next(
    context: GatewayContext,
    sender: Sender,
    channel: Channel,
    message_id: str,
    agent_request: AgentRequest,
    size: int,
    kind: MessageKind = INTERFACE,
) -> Submission:
    """Submit a request after the last message of its channel, whichever task accepted that.

    Once it is written it is accepted, even if its client disconnects. A `message_id` that was used
    before gives the response of that message.

    Args:
        size: the memory that the request takes, in bytes.

    Raises:
        NotPermitted: the response is that of an earlier request, and the sender may not read.
        EvenflowError: as for `Orchestrator.submit`, but for `Conflict`.
    """
    line = reading_line(context, sender)
    request = await context.work.run(line, size, ReceivedRequest.of, agent_request.whole)
    event = IncomingMessage.of_request(
        channel,
        message_id,
        request,
        kind=kind.sent_with(sender.session),
        terms=agent_request.terms.within(sender.traceparent),
        caller=counted_caller(context, sender),
    )
    submission = await asyncio.shield(context.background.run(_submit(context, event)))
    check_may_repeat(sender, submission)
    return submission


async def _submit(context: GatewayContext, event: IncomingMessage) -> Submission:
    last = context.orchestrator.last_message_id(event.channel)
    for _ in range(_TRIES):
        try:
            return await context.orchestrator.submit(replace(event, previous_message_id=last))
        except Conflict as behind:
            last = behind.extra["expected"]
    raise Overloaded(
        "other requests of this chat are accepted at the same time; this one was not, send it "
        "again",
        code="session_contended",
        retry_after_ms=500,
    )
