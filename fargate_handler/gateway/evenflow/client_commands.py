"""Carries out each message of a client, by the orchestrator and the client's readers."""

from __future__ import annotations

import logging
import math
from collections.abc import Coroutine
from typing import Any, Protocol

from evenflow.fargate_handler.gateway.bodies.reading_work import VALUE_BYTES
from evenflow.fargate_handler.gateway.connections.rate_keys import throttle
from evenflow.fargate_handler.gateway.connections.resumption import Progress, Resumption, resume
from evenflow.fargate_handler.gateway.evenflow.client_reader import (
    ClientReader,
    ReadingClient,
    start_frame,
)
from evenflow.fargate_handler.gateway.evenflow.client_readers import ClientReaders
from evenflow.fargate_handler.gateway.evenflow.other_connections import notify_others
from evenflow.fargate_handler.gateway.requests.payload_conversation import conversation_in
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.stream_core.auth.rights import check_right
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.errors import (
    AuthenticationFailed,
    EvenflowError,
    InvalidRequest,
    NotFound,
)
from evenflow.stream_core.delivery.credit_cursor import FlowControl
from evenflow.stream_core.delivery.presence import PresenceListener
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.http.http_contract import internal_error
from evenflow.stream_core.log.response_log import ResumePoint, resume_point
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.protocols.evenflow.messages import (
    ChatMessageFrame,
    ClientMessage,
    NearLimit,
    PresenceSubscribe,
    PresenceUnsubscribe,
    ResponseAck,
    ResponseCancel,
    ResponseContinue,
    ResponseCredit,
    ResponsePause,
    ResponseResume,
    ToolCancel,
    ToolResult,
    right_for,
)
from evenflow.stream_core.protocols.evenflow.response_frames import ids_of, rejection_frame
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.records.connection_records import RejectionRecord
from evenflow.stream_core.session.tool_steps import CANCELLED_CALL
from evenflow.stream_core.tenants.charges import Caller

_logger = logging.getLogger(__name__)
_ENTRY_BYTES = 4 * VALUE_BYTES
"""The work of reading a message or tool in a payload: it has at least four JSON values."""


class CommandingClient(ReadingClient, PresenceListener, Protocol):
    """A client's connection, as commands see it."""

    readers: ClientReaders
    sender: tuple[str, str]


def act(client: CommandingClient, message: ClientMessage) -> None:
    """Carry out a message. What may need the store or another node runs in the background.

    A failure is answered by a frame that names the message or the response.
    """
    now = client.context.monotonic()
    try:
        _check_allowed(client.session.claims, message)
        match message:
            case ChatMessageFrame() | ResponseCancel() | ToolResult() | ToolCancel():
                _in_background(client, _change(client, message), message)
            case ResponseResume():
                # Earlier replays may have left a debt.
                if client.context.calls.charge(client.rate_keys, 0.0, now):
                    _in_background(client, _resume_later(client, message), message)
                else:
                    _resume(client, message, now)
            case ResponsePause():
                _reader(client, message.response_id).pause(now)
            case ResponseContinue():
                _reader(client, message.response_id).unpause(now)
            case ResponseCredit():
                _add_credit(client, message, now)
            case ResponseAck():
                _acknowledge(client, message)
            case PresenceSubscribe() | PresenceUnsubscribe():
                _change_presence_listening(client, message)
    except EvenflowError as error:
        _reject(client, error, message)


def find_replica(client: CommandingClient, reader: ClientReader) -> None:
    """Resume at another replica of the response: that of the reader has ended."""
    if client.readers.get(reader.stream.response_id) is not reader:
        return
    message = ResponseResume(
        type="response.resume",
        response_id=reader.stream.response_id,
        after=reader.next_index - 1,
        epoch=reader.epoch,
    )
    client.context.background.run(_find_replica(client, message))


async def _find_replica(client: CommandingClient, message: ResponseResume) -> None:
    try:
        await _find_and_resume(client, message, client.context.monotonic(), keeps_flow_state=True)
    except Exception as error:
        if not isinstance(error, EvenflowError):
            _logger.exception(
                "response %s could not be resumed at another replica", message.response_id
            )
        client.close(
            CloseCode.GOING_AWAY, "a response has changed owners; connect again and resume it"
        )


def listen_at_replica(client: CommandingClient, response_id: str) -> None:
    """Subscribe to the readers at another replica of the response: the current one has ended."""
    message = PresenceSubscribe(type="presence.subscribe", response_id=response_id)
    _in_background(client, _listen(client, response_id), message)


def _check_allowed(claims: SessionClaims, message: ClientMessage) -> None:
    """Check that the client's token has the right for a message.

    Raises:
        NotPermitted: it lacks the right.
        AuthenticationFailed: it is a ticket for another response.
    """
    check_right(right_for(message), claims.may)
    if claims.only_for not in (None, ids_of(message)[1]):
        raise AuthenticationFailed(
            f"this ticket reads {claims.only_for} and does nothing else; nothing was changed",
            code="token_invalid",
        )


# -- in the background -----------------------------------------------------------------------------


def _in_background(
    client: CommandingClient, work: Coroutine[Any, Any, None], message: ClientMessage
) -> None:
    client.context.background.run(_answered(client, work, message))


async def _answered(
    client: CommandingClient, work: Coroutine[Any, Any, None], message: ClientMessage
) -> None:
    """Do the work. If it fails, reject `message`."""
    try:
        await work
    except EvenflowError as error:
        _reject(client, error, message)
    except Exception:
        _logger.exception("a frame could not be handled")
        _reject(client, internal_error(), message)


def _reject(client: CommandingClient, error: EvenflowError, message: ClientMessage) -> None:
    log_event(RejectionRecord.of(error, client.transport.name, message.type, client.channel.tenant))
    client.send_frame(rejection_frame(error, *ids_of(message)))


# -- messages and responses ------------------------------------------------------------------------


def _change(
    client: CommandingClient,
    message: ChatMessageFrame | ResponseCancel | ToolResult | ToolCancel,
) -> Coroutine[Any, Any, None]:
    """Run a command that changes a conversation or an answer."""
    match message:
        case ChatMessageFrame():
            return _submit(client, message)
        case ResponseCancel():
            return _cancel(client, message)
        case ToolResult():
            return _take_result(client, message, message.text)
        case ToolCancel():
            return _take_result(client, message, CANCELLED_CALL)


async def _submit(client: CommandingClient, message: ChatMessageFrame) -> None:
    context, readers, line = client.context, client.readers, Line(*client.sender)
    caller = Caller(line.tenant, address=line.address)
    await throttle(context, client.rate_keys, 0.0)  # a repeated message replays its answer
    context.work.check(line)
    conversation = conversation_in(message.payload)
    if conversation is not None:
        entries = len(conversation.turns) + len(conversation.options.tools)
        context.work.count(line, _ENTRY_BYTES * entries)
    incoming = IncomingMessage.of_chat(client.session.claims, message, caller, brought=conversation)
    stream, duplicate = await context.orchestrator.submit(incoming)
    if not duplicate:
        notify_others(context.registry, incoming, stream.response_id, client)
        _send_near_limits(client, incoming.payer)
    if client.session.over:
        return  # the client disconnected during the acceptance: it may resume the response
    reader = readers.get(stream.response_id)
    if reader is not None:
        client.send_frame(
            start_frame(stream, reader.next_index, reader.number, duplicate=duplicate)
        )
    else:
        readers.read(
            client, stream, ResumePoint(0), FlowControl(credit=message.credit), duplicate=duplicate
        )


def _send_near_limits(client: CommandingClient, payer: Caller) -> None:
    """Send the client each of its limits that is nearly used up."""
    context = client.context
    for state in context.quotas.hints(payer, context.monotonic()):
        client.send_frame(
            NearLimit(
                type="near_limit",
                limit=state.limit,
                most=state.most,
                remaining=state.remaining,
                resets_in_ms=math.ceil(state.resets_in * 1000),
            )
        )


def _resume(client: CommandingClient, message: ResponseResume, now: float) -> None:
    stream = client.context.orchestrator.responses.of_session(message.response_id, client.channel)
    point = resume_point(stream.log, message.after, message.epoch) if stream is not None else None
    if stream is None or point is None:
        _in_background(client, _find_and_resume(client, message, now), message)
    else:
        _resume_at(client, Resumption(stream, point), now, FlowControl(credit=message.credit))


async def _resume_later(client: CommandingClient, message: ResponseResume) -> None:
    await throttle(client.context, client.rate_keys, 0.0)
    await _find_and_resume(client, message, client.context.monotonic())


async def _find_and_resume(
    client: CommandingClient, message: ResponseResume, now: float, *, keeps_flow_state: bool = False
) -> None:
    progress = Progress(message.after, message.epoch, "after")
    resumption = await resume(client.context, message.response_id, client.channel, progress)
    if not client.session.over:
        earlier = client.readers.get(resumption.stream.response_id)
        new_state = FlowControl(credit=message.credit)
        flow_state = earlier.flow_state if keeps_flow_state and earlier is not None else new_state
        _resume_at(client, resumption, now, flow_state)


def _resume_at(
    client: CommandingClient, resumption: Resumption, now: float, flow_state: FlowControl
) -> None:
    context, readers = client.context, client.readers
    earlier = readers.get(resumption.stream.response_id)
    if earlier is not None:
        readers.remove(earlier)
    readers.read(client, resumption.stream, resumption.point, flow_state, duplicate=True)
    resumed = context.monotonic() - now
    context.metrics.distribution(catalogue.RESUME).record(resumed * 1000)


async def _cancel(client: CommandingClient, message: ResponseCancel) -> None:
    orchestrator = client.context.orchestrator
    await orchestrator.cancel(await orchestrator.find(message.response_id, client.channel))
    reader = client.readers.get(message.response_id)
    if reader is not None:
        # A client that pauses or grants no credit, and then cancels, still wants the end.
        reader.lift_limits(client.context.monotonic())


async def _take_result(
    client: CommandingClient, message: ToolResult | ToolCancel, text: str
) -> None:
    orchestrator = client.context.orchestrator
    stream = await orchestrator.find(message.response_id, client.channel)
    await orchestrator.take_result(stream, message.call_id, text)


# -- presence --------------------------------------------------------------------------------------


def _change_presence_listening(
    client: CommandingClient, message: PresenceSubscribe | PresenceUnsubscribe
) -> None:
    if isinstance(message, PresenceSubscribe):
        _in_background(client, _listen(client, message.response_id), message)
        return
    client.context.orchestrator.presence.leave(_stream(client, message.response_id), client)


async def _listen(client: CommandingClient, response_id: str) -> None:
    stream = await client.context.orchestrator.find(response_id, client.channel)
    if not client.session.over:
        shared = client.session.claims.shared
        client.context.orchestrator.presence.listen(stream, client, shared=shared)


# -- readers ---------------------------------------------------------------------------------------


def _add_credit(client: CommandingClient, message: ResponseCredit, now: float) -> None:
    if (
        message.response_id not in client.readers
        and _stream(client, message.response_id).log.closed
    ):
        return  # the credit came after the end
    _reader(client, message.response_id).add_credit(message.n, now)


def _acknowledge(client: CommandingClient, message: ResponseAck) -> None:
    reader = client.readers.get(message.response_id)
    stream = reader.stream if reader is not None else _stream(client, message.response_id)
    client.context.measures.acknowledged.value += _acknowledged(stream, message.index)
    if reader is not None:
        took = reader.acknowledged(message.index, client.context.monotonic())
        if took is not None:
            client.context.metrics.distribution(catalogue.ACKNOWLEDGEMENT).record(took * 1000)


def _acknowledged(stream: ResponseStream, index: int) -> int:
    """Record that the client has everything up to `index`. Returns the newly covered deltas."""
    last_index = stream.log.next_index - 1
    if index <= last_index:
        return stream.acknowledge(index)
    if stream.epoch > 1 or not stream.is_owned_here:
        return 0  # the store lacks some of what an earlier owner has sent
    raise InvalidRequest(
        f"`index` is {index}, but the response's last index is {last_index}",
        code="invalid_field",
        param="index",
    )


def _stream(client: CommandingClient, response_id: str) -> ResponseStream:
    return client.context.orchestrator.responses.get(response_id, client.channel)


def _reader(client: CommandingClient, response_id: str) -> ClientReader:
    reader = client.readers.get(response_id)
    if reader is None:
        _stream(client, response_id)
        raise NotFound(
            "this connection doesn't read that response; resume it first", code="response_not_found"
        )
    return reader
