"""Reads a request's body, and submits the message that it becomes.

A request is the only message of a session of its own.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.request_body import read_body
from evenflow.fargate_handler.gateway.http.senders import (
    Sender,
    counted_caller,
    digest_of,
    reading_line,
)
from evenflow.fargate_handler.orchestrator.incoming_message import (
    IncomingMessage,
    ReceivedRequest,
    WholeRequest,
    repeatable_channel,
    single_channel,
)
from evenflow.fargate_handler.orchestrator.orchestrator import Submission
from evenflow.fargate_handler.orchestrator.request_memory import Reading
from evenflow.stream_core.auth.rights import Right, check_right
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.channel import COMPLETION, KEYED_COMPLETION, Channel, MessageKind
from evenflow.stream_core.base.errors import Conflict, Gone, InvalidRequest
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.http.content_encoding import GZIP
from evenflow.stream_core.http.http_contract import whole_number

IDEMPOTENCY_KEY = "Idempotency-Key"
TIMEOUT_HEADER = "Evenflow-Timeout-Ms"
_LONGEST_KEY = 255

_T = TypeVar("_T")


async def read_request(
    request: web.Request,
    sender: Sender,
    context: GatewayContext,
    reading: Reading,
    parse: Callable[[bytes | bytearray], _T],
) -> _T:
    """Read and parse a body, which a known sender may have compressed.

    Only received bytes are counted, whatever `Content-Length` says.

    Args:
        parse: parses the body. It may run in another thread.

    Raises:
        UnsupportedMediaType: it comes in an encoding that is not taken.
        TooLarge: it is larger than allowed, or has too many values.
        InvalidRequest: it can't be decoded, or is wrong.
        RateLimited: too many bytes were read for this sender lately.
        Overloaded: the node has no memory for it.
        RequestTimeout: it came too slowly.
    """
    work, line = context.work, reading_line(context, sender)
    work.check(line)

    def grow_to(length: int) -> None:
        work.check(line)
        work.count(line, length - reading.bytes)
        reading.grow_to(length)

    encodings = (GZIP,) if sender.known else ()
    body = await read_body(request, context, context.limits.request_bytes, encodings, grow_to)
    return await work.read(line, body, parse, reading.grow_to)


async def submit_request(
    context: GatewayContext,
    sender: Sender,
    key: str | None,
    whole: WholeRequest,
    terms: MessageTerms,
    size: int,
) -> ResponseStream:
    """Submit a request, and return its response. The same key always gives the same response.

    Args:
        size: the memory that the request takes, in bytes.

    Raises:
        InvalidRequest: the key is wrong, or was used for another request.
        Gone: the key's response is no longer kept.
        RateLimited: messages come too fast, or a quota or the queue is full.
        Overloaded: this node is leaving, or the ledger can't be written.
    """
    line = reading_line(context, sender)
    message = await context.work.run(
        line, size, _message_with_key, context, sender, key, whole, terms
    )
    return await submit_message(context, sender, message, stays=key is not None)


async def submit_message(
    context: GatewayContext, sender: Sender, message: IncomingMessage, *, stays: bool
) -> ResponseStream:
    """Submit a message with a whole request, and return its response.

    Args:
        stays: whether the response continues if its client disconnects.

    Raises:
        NotPermitted: it is the response of an earlier request, and the sender may not read.
        EvenflowError: as for `submit_request`.
    """
    accepting = context.background.run(context.orchestrator.submit(message))
    try:
        submission = await asyncio.shield(accepting)
    except asyncio.CancelledError:
        if not stays:
            context.background.run(_leave_when_accepted(context, accepting))
        raise
    except Conflict:
        raise InvalidRequest(
            "this Idempotency-Key was used for a different request; nothing was generated, use "
            "another one",
            code="idempotency_key_reused",
            param=IDEMPOTENCY_KEY,
        ) from None
    except Gone as gone:
        if gone.code == "session_ended":
            raise
        raise Gone(
            "the answer of this Idempotency-Key is no longer kept; nothing was generated, ask "
            "again with another one",
            code=gone.code,
            param=IDEMPOTENCY_KEY,
        ) from gone
    check_may_repeat(sender, submission)
    return submission.stream


def check_may_repeat(sender: Sender, submission: Submission) -> None:
    """Check that a sender may read the response of an earlier request.

    Raises:
        NotPermitted: the sender may not read it.
    """
    if submission.duplicate:
        check_right(Right.READ, sender.may)


def checked_key(key: str | None) -> str | None:
    """Check the `Idempotency-Key` of a request, if it has one.

    Raises:
        InvalidRequest: it is empty, or too long.
    """
    if key is not None and not 0 < len(key) <= _LONGEST_KEY:
        raise InvalidRequest(
            f"{IDEMPOTENCY_KEY} must have 1 to {_LONGEST_KEY} characters; nothing was generated",
            code="invalid_field",
            param=IDEMPOTENCY_KEY,
        )
    return key


def timeout_ms(request: web.Request, given: int | None = None) -> int | None:
    """The deadline of the whole answer, in milliseconds. None: the request has none.

    Args:
        given: the body's value, which overrides the header.

    Raises:
        InvalidRequest: the header is no whole number from 1 on.
    """
    header = request.headers.get(TIMEOUT_HEADER)
    if given is not None or header is None:
        return given
    return whole_number(TIMEOUT_HEADER, header, 0, lowest=1)


def leave_response(context: GatewayContext, stream: ResponseStream) -> None:
    """Stop the model if it still runs, and drop the answer: no client can resume it."""
    if stream.log.closed:
        context.orchestrator.responses.drop(stream)
    else:
        context.background.run(_stop(context, stream))


async def _stop(context: GatewayContext, stream: ResponseStream) -> None:
    """Cancel a response, whichever node generates it now."""
    held = await context.orchestrator.find(stream.response_id, stream.channel)
    if (await context.orchestrator.cancel(held)).terminal:
        context.orchestrator.responses.drop(held)


async def _leave_when_accepted(
    context: GatewayContext, accepting: asyncio.Task[Submission]
) -> None:
    leave_response(context, (await accepting).stream)


def _message_with_key(
    context: GatewayContext,
    sender: Sender,
    key: str | None,
    whole: WholeRequest,
    terms: MessageTerms,
) -> IncomingMessage:
    if key is None:
        channel = single_channel(sender.tenant, secrets.token_hex(16), sender.session)
        return message_of_request(context, sender, channel, COMPLETION, whole, terms)
    channel = repeatable_channel(sender.tenant, digest_of(key, sender), sender.session)
    return message_of_request(context, sender, channel, KEYED_COMPLETION, whole, terms)


def message_of_request(
    context: GatewayContext,
    sender: Sender,
    channel: Channel,
    kind: MessageKind,
    whole: WholeRequest,
    terms: MessageTerms,
) -> IncomingMessage:
    """The message of a request, the only one of its channel."""
    kind = kind.sent_with(sender.session)
    if sender.retries and kind.is_told_at_once:
        kind = kind.model_copy(update={"client_retries": True})
    request = ReceivedRequest.of(whole)
    return IncomingMessage.of_request(
        channel,
        request.digest(terms.model),
        request,
        kind=kind,
        terms=terms.within(sender.traceparent),
        caller=counted_caller(context, sender),
    )
