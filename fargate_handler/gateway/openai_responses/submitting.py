"""Submits a request of the Responses API: its conversation is put together, and accepted."""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.senders import Sender, digest_of, reading_line
from evenflow.fargate_handler.gateway.openai_responses.input_turns import InputTurns, check_answered
from evenflow.fargate_handler.gateway.openai_responses.known_responses import (
    EarlierResponses,
    KnownResponse,
    channel_of,
)
from evenflow.fargate_handler.gateway.openai_responses.request import (
    ResponseCall,
    continued_turns,
)
from evenflow.fargate_handler.gateway.requests.known_models import chosen_model
from evenflow.fargate_handler.gateway.requests.submission import (
    message_of_request,
    submit_message,
)
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.stream_core.base.channel import (
    BACKGROUND,
    COMPLETION,
    RESPONSE,
    UNKEYED_RESPONSE,
)
from evenflow.stream_core.protocols.openai_responses.ids import PublicResponse
from evenflow.stream_core.protocols.request_bounds import check_turns
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.session.conversation import Turn


class Submitted(NamedTuple):
    """A request's response. `stays`: whether it goes on, and is kept, if its sender leaves."""

    response: KnownResponse
    stays: bool


async def submit(
    context: GatewayContext,
    sender: Sender,
    call: ResponseCall,
    earlier: EarlierResponses,
    key: str | None = None,
) -> Submitted:
    """Submit a request, and return its response. The same key returns the same response.

    Args:
        earlier: finds the responses that the request names.

    Raises:
        NotFound: there is no such model.
        InvalidRequest: it names none, and there are several.
        TooLarge: its conversation is larger than a request may be.
        EvenflowError: as for `submit_request`.
    """
    model = chosen_model(call.terms.model, context, sender.tenant, sender.session)
    call = call.of_model(model)
    line = reading_line(context, sender)
    request = await _whole_request(context, line, call, earlier)
    stays = call.is_kept or key is not None
    digest = digest_of(key, sender) if key is not None else secrets.token_hex(20)
    stored_kind = UNKEYED_RESPONSE if key is None else RESPONSE
    kind = BACKGROUND if call.background else stored_kind if stays else COMPLETION
    channel = channel_of(sender, digest)
    terms = sender.named_in(call.terms)
    message = await context.work.run(
        line,
        earlier.memory_bytes,
        message_of_request,
        context,
        sender,
        channel,
        kind,
        request,
        terms,
    )
    earlier.check_size(message.text)
    stream = await submit_message(context, sender, message, stays=stays)
    response = PublicResponse(stream.response_id, digest)
    return Submitted(KnownResponse(response, stream, request), stays)


async def _whole_request(
    context: GatewayContext, line: Line, call: ResponseCall, earlier: EarlierResponses
) -> WholeRequest:
    earlier_turns = await earlier.conversation(call.request.previous_response_id)
    items = [await earlier.item(item, f"input.{place}.") for place, item in enumerate(call.items)]
    request = await context.work.run(
        line, earlier.memory_bytes, _assemble, call, earlier_turns, items
    )
    param = "previous_response_id" if earlier_turns else "input"
    check_turns(continued_turns(request), context.limits, param)
    return request


def _assemble(
    call: ResponseCall, earlier_turns: tuple[Turn, ...], items: list[dict[str, Any]]
) -> WholeRequest:
    input_turns = InputTurns()
    for place, item in enumerate(items):
        input_turns.take(item, f"input.{place}.")
    request = call.incoming_message(earlier_turns, input_turns.turns)
    check_answered(request.turns)
    return request
