"""Finds responses by the ids that clients of the Responses API have, with their requests."""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import Any, NamedTuple

import orjson

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.senders import Sender, reading_line
from evenflow.fargate_handler.gateway.openai_responses.input_turns import InputTurns
from evenflow.fargate_handler.gateway.openai_responses.request import (
    continued_turns,
    is_stored,
)
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest, response_channel
from evenflow.fargate_handler.orchestrator.request_memory import Reading, memory_of_text
from evenflow.stream_core.auth.rights import Right, check_right
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Gone, InvalidRequest, NotFound, TooLarge
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import slice_of
from evenflow.stream_core.protocols.openai_responses.ids import PublicResponse, parse_item
from evenflow.stream_core.protocols.openai_responses.output_items import output_of
from evenflow.stream_core.protocols.openai_responses.whole_answer import status_of
from evenflow.stream_core.session.conversation import Turn


class KnownResponse(NamedTuple):
    """A response and its request."""

    id: PublicResponse
    stream: ResponseStream
    request: WholeRequest

    @property
    def output(self) -> list[dict[str, Any]]:
        """The output items. Those that never ended are `incomplete`."""
        opened = "completed" if status_of(self.stream) == "completed" else "incomplete"
        return output_of(self.id, slice_of(self.stream.log.entries, 0).current, opened)


def channel_of(sender: Sender, digest: str) -> Channel:
    """The channel of this sender's response with this digest."""
    return response_channel(sender.tenant, sender.own_digest(digest), sender.session)


async def find_response(
    context: GatewayContext,
    sender: Sender,
    text: str,
    reading: Reading,
    unstored: Container[str] = (),
) -> KnownResponse:
    """A response by its id.

    Args:
        reading: counts the memory of its request.
        unstored: responses of the same connection. They are found though they are not stored.

    Raises:
        NotFound: there is no such response, it is another sender's, or is deleted.
        Gone: it is no longer kept.
        RateLimited: too many bytes were read for this sender lately.
        Overloaded: the store cannot be read, or there is no memory.
    """
    response = PublicResponse.parse(text)
    if response is None:
        raise _unknown(text)
    channel = channel_of(sender, response.digest)
    orchestrator, line = context.orchestrator, reading_line(context, sender)
    if not await orchestrator.has_messages(channel):
        raise _unknown(text)

    def reserve(size: int) -> None:
        reading.grow_to(reading.bytes + size)

    key = response.response_id, channel
    text_of = partial(orchestrator.message_text, *key)
    request = await context.work.read_stored(line, key, text_of, reserve)
    if request is None or not (is_stored(request) or text in unstored):
        raise _unknown(text)
    stream = await orchestrator.find(*key)
    return KnownResponse(response, stream, request)


class EarlierResponses:
    """The earlier responses that a request refers to. Each is looked up once."""

    def __init__(
        self,
        context: GatewayContext,
        sender: Sender,
        reading: Reading,
        unstored: Container[str] = (),
    ) -> None:
        self._context = context
        self._sender = sender
        self._reading = reading
        self._unstored = unstored
        self._responses: dict[str, KnownResponse] = {}
        self._outputs: dict[str, list[dict[str, Any]]] = {}
        self._sizes: dict[str, int] = {}
        self._referred_bytes = 0

    @property
    def memory_bytes(self) -> int:
        """The memory of the request, with all that it refers to."""
        return self._reading.bytes

    async def conversation(self, response_id: str | None) -> tuple[Turn, ...]:
        """The turns of an earlier response's request, and its answer. Without an id there are none.

        Raises:
            InvalidRequest: it is not found, or has not ended.
        """
        if response_id is None:
            return ()
        earlier = await self._find(response_id, "previous_response_id")
        answer = InputTurns()
        for item in self._output_of(earlier):
            if item["status"] == "completed" or item["type"] == "message":
                answer.take(item, "")
        return (*continued_turns(earlier.request), *answer.turns)

    async def item(self, item: dict[str, Any], where: str) -> dict[str, Any]:
        """Resolve a reference to an item. Other items are returned unchanged.

        Raises:
            InvalidRequest: it refers to an item that is not found.
            TooLarge: all such items together exceed the size of a request.
        """
        if item.get("type") != "item_reference":
            return item
        item_id = str(item.get("id"))
        reference = parse_item(item_id)
        if reference is not None:
            output = self._output_of(await self._find(str(reference[0]), f"{where}id"))
            for candidate in output[reference[1] : reference[1] + 1]:
                if candidate["id"] == item_id:
                    self._count_item(item_id, candidate)
                    return candidate
        raise _not_found(f"item {item_id[:100]!r}", f"{where}id")

    def check_size(self, text: str) -> None:
        """Check the text of a request that continues a conversation.

        Raises:
            TooLarge: it is larger than a request may be.
            Overloaded: the node has no room for it.
        """
        if not self._responses:
            return
        self._reading.grow_to(self._reading.bytes + memory_of_text(text))
        size = len(text.encode())
        self._context.work.count(reading_line(self._context, self._sender), size)
        if size > self._context.limits.request_bytes:
            raise _too_large("previous_response_id")

    def _output_of(self, earlier: KnownResponse) -> list[dict[str, Any]]:
        """The output items of a response, built once: each item of a request may refer to it."""
        name = str(earlier.id)
        if name not in self._outputs:
            self._outputs[name] = earlier.output
        return self._outputs[name]

    def _count_item(self, name: str, item: dict[str, Any]) -> None:
        """Count the bytes of an item. A request may refer to it repeatedly."""
        if name not in self._sizes:
            self._sizes[name] = len(orjson.dumps(item))
        self._referred_bytes += self._sizes[name]
        if self._referred_bytes > self._context.limits.request_bytes:
            raise _too_large("input")

    async def _find(self, text: str, param: str) -> KnownResponse:
        if text not in self._unstored:  # its model would get the text, and might repeat it
            check_right(Right.READ, self._sender.may)
        response = self._responses.get(text)
        if response is None:
            try:
                response = await find_response(
                    self._context, self._sender, text, self._reading, self._unstored
                )
            except (NotFound, Gone):
                raise _not_found(f"response {text[:100]!r}", param) from None
            self._responses[text] = response
        if not response.stream.log.closed:
            raise InvalidRequest(
                f"response {text[:100]!r} is still in progress; nothing was generated, ask again "
                "when it has ended",
                code="previous_response_in_progress",
                param=param,
            )
        return response


def _too_large(param: str) -> TooLarge:
    return TooLarge(
        "the conversation is larger than a request may be; nothing was generated, send the part "
        "of it that matters as `input`",
        code="message_too_large",
        param=param,
    )


def _unknown(text: str) -> NotFound:
    return NotFound(f"there is no response {text[:100]!r}", code="response_not_found")


def _not_found(what: str, param: str) -> InvalidRequest:
    return InvalidRequest(
        f"{what} is not found: it is another's, deleted, or no longer kept; nothing was "
        "generated, send the whole conversation as `input`",
        code="previous_response_not_found",
        param=param,
    )
