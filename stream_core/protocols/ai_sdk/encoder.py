"""A response as AI SDK's UI message stream, version 1.

An answer is one step of a message, so that `reset-step` retracts all of it. The stock client
resumes from the beginning. One with a cursor has it from the events' ids: an event has an id if its
reader then has everything up to an entry.
"""

from __future__ import annotations

from typing import Any

import orjson

from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.answer_end import end_by_calls
from evenflow.stream_core.encoding.block_encoder import BlockPlace, WriteDelta
from evenflow.stream_core.encoding.blocks import Block
from evenflow.stream_core.encoding.port import event_id, rest_of_id
from evenflow.stream_core.log.entries import CALL_EXTRA, EXTRA, LOGPROBS, Part, PartKind
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.openai_chat.encoder import check_completed

METADATA = "evenflow"
"""The key of what we add to a part's provider metadata."""

TYPES = {PartKind.TEXT: "text", PartKind.REFUSAL: "text", PartKind.REASONING: "reasoning"}
"""The types of a model's contents, by kind."""
_REASONS = {"tool_calls": "tool-calls", "content_filter": "content-filter", "budget": "length"}
UNSEEN = frozenset({LOGPROBS, "finish", EXTRA, CALL_EXTRA})
"""Data that no chat shows."""
_DONE = b"data: [DONE]\n\n"


class UIMessageChunks:
    """Writes a response's chunks (`BlockObjects`).

    Args:
        message_id: the id of the message on the screen. None: it is the client's own, since the
            answer continues a message that it has.
        afresh: whether the client drops what it has of this answer, and gets all of it.
    """

    resets = True

    def __init__(self, message_id: str | None, *, afresh: bool = False) -> None:
        self._message_id = message_id
        self._afresh = afresh

    def opening(self, place: BlockPlace, open_blocks: tuple[Block, ...]) -> bytes:
        """The first chunks. A client that resumes in the middle has them."""
        if place.last >= 0:
            return b""
        if self._afresh:
            return self.reset(place)
        start = {"type": "start"}
        if self._message_id is not None:
            start["messageId"] = self._message_id
        return _event(start) + _event({"type": "start-step"})

    def begin(self, place: BlockPlace, block: Block) -> bytes:
        """A block begins."""
        if block.kind is PartKind.CALL:
            call = {"type": "tool-input-start", "toolCallId": block.id, "toolName": block.name}
            return _event(call | ({"inputEncoding": "text"} if block.custom else {}), place)
        start = {"type": f"{TYPES[block.kind]}-start", "id": str(block.number)}
        return _event(start | provider_metadata(block))

    def deltas(self, block: Block, epoch: int) -> WriteDelta:
        """Return the writer of a block's deltas."""
        prefix = b"%b\ndata: %b" % (rest_of_id(epoch), _before_delta(block))
        return lambda text, _, last: b"id: %d%b%b}\n\n" % (last, prefix, orjson.dumps(text))

    def end(self, place: BlockPlace, block: Block) -> bytes:
        """A block ends."""
        if block.kind is PartKind.CALL:
            return _event(made_call(block) | provider_metadata(block), place)
        end = {"type": f"{TYPES[block.kind]}-end", "id": str(block.number)}
        return _event(end | (provider_metadata(block) if block.extra else {}))

    def value(self, place: BlockPlace, part: Part, block: Block | None) -> bytes:
        """A result, or data."""
        if part.kind is PartKind.RESULT:
            result = {
                "toolCallId": part.id,
                "output": tool_output(part.text),
                "providerExecuted": True,
            }
            return _event({"type": "tool-output-available"} | result, place)
        if part.name in UNSEEN:
            return b""
        value = orjson.loads(part.text)
        if part.name == "source" and isinstance(value, dict) and "url" in value:
            source = {"sourceId": part.id or f"source-{place.first}", "url": value["url"]}
            titled = {"title": value["title"]} if value.get("title") else {}
            return _event({"type": "source-url"} | source | titled, place)
        identity = {"id": part.id} if part.id else {}
        return _event({"type": f"data-{part.name}"} | identity | {"data": value}, place)

    def reset(self, place: BlockPlace) -> bytes:
        """Retract the answer so far."""
        return _event({"type": "reset-step"})

    def finish(self, place: BlockPlace, stream: ResponseStream) -> bytes:
        """The end of the answer.

        Raises:
            EvenflowError: the response ended with it.
        """
        if stream.state is ResponseState.CANCELLED:
            return _event({"type": "abort", "reason": stream.finish_reason}) + _DONE
        check_completed(stream)
        reason = end_by_calls(stream)
        finish = {"type": "finish", "finishReason": _REASONS.get(reason, reason)}
        return _event({"type": "finish-step"}) + _event(finish) + _DONE

    def failure(self, error: EvenflowError) -> bytes:
        """An error that ends the stream. The client raises it."""
        chunk = {"type": "error", "errorText": error.message, "code": error.code}
        return _event(chunk) + _DONE


def provider_metadata(block: Block) -> dict[str, Any]:
    """The field `providerMetadata` of a block. Empty if its server needs nothing back."""
    returned = block.returned
    return {"providerMetadata": {METADATA: returned}} if returned else {}


def _before_delta(block: Block) -> bytes:
    """The chunk of a delta up to its text."""
    if block.kind is PartKind.CALL:
        return b'{"type":"tool-input-delta","toolCallId":%b,"inputTextDelta":' % orjson.dumps(
            block.id
        )
    kind = TYPES[block.kind].encode()
    return b'{"type":"%b-delta","id":"%d","delta":' % (kind, block.number)


def made_call(block: Block) -> dict[str, Any]:
    """The chunk with the whole input of a call."""
    call = {"toolCallId": block.id, "toolName": block.name}
    if block.custom:
        return {"type": "tool-input-available", **call, "input": block.text}
    arguments = block.arguments
    if arguments is None:
        message = "the arguments are no JSON object: the model wrote them wrong, or was cut off"
        return {"type": "tool-input-error", **call, "input": block.text, "errorText": message}
    return {"type": "tool-input-available", **call, "input": arguments}


def tool_output(text: str) -> Any:
    """A tool's output: an object or a list if it is JSON, otherwise the text."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _id(place: BlockPlace) -> bytes:
    return event_id(place.last, place.epoch).encode()


def _event(chunk: dict[str, Any], place: BlockPlace | None = None) -> bytes:
    data = b"data: %b\n\n" % orjson.dumps(chunk)
    return data if place is None else b"id: %b\n%b" % (_id(place), data)
