"""Encodes an answer for Anthropic's API: as a message, or as events."""

from __future__ import annotations

from typing import Any

import orjson

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import EvenflowError, InvalidRequest
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.answer_end import end_by_calls
from evenflow.stream_core.encoding.block_encoder import BlockPlace, WriteDelta
from evenflow.stream_core.encoding.blocks import Begin, Block, Value
from evenflow.stream_core.encoding.port import event_id, rest_of_id
from evenflow.stream_core.encoding.serial_blocks import SerialBlocks
from evenflow.stream_core.log.entries import Content, Part, PartKind
from evenflow.stream_core.log.response_log import ResumePoint, slice_of
from evenflow.stream_core.protocols.openai_chat.encoder import check_completed
from evenflow.stream_core.upstream.context_length import TOO_LONG, ContextLengths

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
"""The event of a heartbeat."""
OVERLOADED = 529
"""The status of this API for an overloaded server."""
INVALID_JSON = "INVALID_JSON"
"""The member of a call's input with arguments that are no object, by Anthropic's guide."""

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    410: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    OVERLOADED: "overloaded_error",
    504: "timeout_error",
}
# This API's name of a field, by its name in OpenAI's API.
_FIELDS = {
    "max_completion_tokens": "max_tokens",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "reasoning_effort": "thinking",
    "response_format": "output_config.format",
    "stop": "stop_sequences",
}
_STOP_REASONS = {
    "length": "max_tokens",
    "budget": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_DELTAS = {
    PartKind.TEXT: (b"text_delta", b"text"),
    PartKind.REFUSAL: (b"text_delta", b"text"),
    PartKind.REASONING: (b"thinking_delta", b"thinking"),
}
# Characters of a call's input in one event.
_INPUT_PIECE = 16_384


def error_object(error: EvenflowError, request_id: str) -> dict[str, Any]:
    """An error as the body of an answer, and as the data of an event."""
    error.name_param(_FIELDS)
    otherwise = "api_error" if error.status >= 500 else "invalid_request_error"
    error_fields = error.to_object() | {"type": _TYPES.get(status_of(error), otherwise)}
    if error.code == TOO_LONG:
        error_fields["message"] = ContextLengths.stated_in(error.message).in_words_of_anthropic()
    return {"type": "error", "error": error_fields, "request_id": request_id}


def status_of(error: EvenflowError) -> int:
    """The status of an error in this API."""
    if error.code == TOO_LONG:
        return InvalidRequest.status
    return OVERLOADED if error.status == 503 else error.status


def thoughts_before(stream: ResponseStream, point: ResumePoint) -> int:
    """The number of thoughts before `point`."""
    contents = slice_of(stream.log.entries[: point.next_index], 0).current
    blocks = SerialBlocks()
    return sum(
        isinstance(event, Begin) and event.block.kind is PartKind.REASONING
        for content in contents
        for event in blocks.take(content)
    )


class AnthropicObjects:
    """Writes one response as a `message`, or as events (`BlockObjects`).

    The last event of an entry has its place as `id`: a client that has it has the entry.

    Args:
        model: the model's name in the client's request.
        thinking: whether the client gets the model's thinking.
        left_out: how many thoughts were left out before the place where the reader begins.
    """

    resets = False

    def __init__(
        self, response_id: str, model: str, *, thinking: bool, hidden_blocks: int = 0
    ) -> None:
        self._response_id = response_id
        self._model = model
        self._thinking = thinking
        self._hidden_blocks = hidden_blocks
        self._numbers: dict[int, int] = {}

    def whole(self, stream: ResponseStream) -> dict[str, Any]:
        """The whole answer, for a request without `stream`."""
        contents = _contents_of(slice_of(stream.log.entries, 0).current, thinking=self._thinking)
        reason = _stop_reason(stream)
        return self._message(contents, reason) | {"usage": _usage(stream.usage)}

    # -- events ------------------------------------------------------------------------------------

    def opening(self, place: BlockPlace, open_blocks: tuple[Block, ...]) -> bytes:
        """The beginning of the message. Empty for a client that resumes in the middle."""
        self._numbers = {block.number: block.number - self._hidden_blocks for block in open_blocks}
        if place.last >= 0:
            return b""
        message = self._message([], None) | {"usage": _usage(None)}
        return _event(b"message_start", {"message": message})

    def begin(self, place: BlockPlace, block: Block) -> bytes:
        """A block begins."""
        if not self._is_visible(block):
            self._hidden_blocks += 1
            return b""
        self._numbers[block.number] = number = block.number - self._hidden_blocks
        start = {"index": number, "content_block": _empty_block(block)}
        # More of the same entry follows, but for calls.
        return _event(b"content_block_start", start, place if block.kind is PartKind.CALL else None)

    def deltas(self, block: Block, epoch: int) -> WriteDelta:
        """Encodes deltas of a block. The input of a call is written at its end, as an object."""
        if block.kind is PartKind.CALL or not self._is_visible(block):
            return lambda _text, _first, _last: b""
        kind, field = _DELTAS[block.kind]
        prefix = (
            b'%b\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
        ) % (rest_of_id(epoch), self._numbers[block.number], kind, field)
        return lambda text, _, last: (
            b"event: content_block_delta\nid: %d%b%b}}\n\n" % (last, prefix, orjson.dumps(text))
        )

    def end(self, place: BlockPlace, block: Block) -> bytes:
        """A block ends."""
        if not self._is_visible(block):
            return b""
        number = self._numbers.pop(block.number)
        if block.kind is not PartKind.CALL:
            return _signed(block, number) + _event(b"content_block_stop", {"index": number})
        # The model's own text: parsed and written again, large numbers would lose digits.
        text = block.text.strip() if block.arguments else orjson.dumps(_input_of(block)).decode()
        pieces = [text[at : at + _INPUT_PIECE] for at in range(0, len(text), _INPUT_PIECE)]
        deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
        events = [
            _event(b"content_block_delta", {"index": number, "delta": delta}) for delta in deltas
        ]
        return b"".join([*events, _event(b"content_block_stop", {"index": number}, place)])

    def value(self, place: BlockPlace, part: Part, block: Block | None) -> bytes:
        """A citation of a text. Other values have no event in this API, or are in other ones."""
        citation = None if block is None else _citation(part, block)
        if block is None or citation is None:
            return b""
        delta = {"type": "citations_delta", "citation": citation}
        fields = {"index": self._numbers[block.number], "delta": delta}
        return _event(b"content_block_delta", fields, place)

    def reset(self, place: BlockPlace) -> bytes:
        """Never called: this API can't take anything back."""
        raise NotImplementedError(place)

    def finish(self, place: BlockPlace, stream: ResponseStream) -> bytes:
        """The events at the end of the answer: its stop reason, and the end itself."""
        del place
        check_completed(stream)
        stop = {"stop_reason": _stop_reason(stream), "stop_sequence": None}
        delta = {"delta": stop, "usage": _usage(stream.usage)}
        return _event(b"message_delta", delta) + _event(b"message_stop", {})

    def failure(self, error: EvenflowError) -> bytes:
        """An event that clients raise as an error."""
        return b"event: error\ndata: %b\n\n" % orjson.dumps(error_object(error, self._response_id))

    def _is_visible(self, block: Block) -> bool:
        return self._thinking or block.kind is not PartKind.REASONING

    def _message(self, content: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
        return {
            "id": f"msg_{self._response_id.removeprefix('rsp_')}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
        }


def _event(kind: bytes, fields: dict[str, Any], place: BlockPlace | None = None) -> bytes:
    line = b"id: %b\n" % _id(place) if place is not None else b""
    data = orjson.dumps({"type": kind.decode()} | fields)
    return b"event: %b\n%bdata: %b\n\n" % (kind, line, data)


def _id(place: BlockPlace) -> bytes:
    return event_id(place.last, place.epoch).encode()


def _signed(block: Block, number: int) -> bytes:
    """The `signature_delta` of a thought. Some clients read the signature only there."""
    if block.kind is not PartKind.REASONING or block.silent:
        return b""
    delta = {"type": "signature_delta", "signature": block.sealed}
    return _event(b"content_block_delta", {"index": number, "delta": delta})


def _empty_block(block: Block) -> dict[str, Any]:
    """A block without the contents of its deltas."""
    if block.silent:
        return {"type": "redacted_thinking", "data": block.sealed}
    if block.kind is PartKind.REASONING:
        return {"type": "thinking", "thinking": "", "signature": ""}
    if block.kind is PartKind.CALL:
        call = {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
        return block.extra | call
    return {"type": "text", "text": ""}


def _contents_of(contents: tuple[Content, ...], *, thinking: bool) -> list[dict[str, Any]]:
    """An answer's contents as whole blocks."""
    blocks, whole_blocks = SerialBlocks(), list[tuple[Block, dict[str, Any]]]()
    events = [event for content in contents for event in blocks.take(content)]
    for event in [*events, *blocks.end()]:
        if isinstance(event, Begin):
            whole_blocks.append((event.block, _empty_block(event.block)))
        elif isinstance(event, Value) and event.block is not None:
            _add_citation(event.part, event.block, whole_blocks[-1][1])
    return [
        ({} if block.kind is PartKind.REASONING else block.extra) | start | _content_fields(block)
        for block, start in whole_blocks
        if thinking or block.kind is not PartKind.REASONING
    ]


def _add_citation(part: Part, block: Block, block_object: dict[str, Any]) -> None:
    if (citation := _citation(part, block)) is not None:
        block_object.setdefault("citations", []).append(citation)


def _content_fields(block: Block) -> dict[str, Any]:
    if block.silent:
        return {}
    if block.kind is PartKind.REASONING:
        return {"thinking": block.text, "signature": block.sealed}
    if block.kind is not PartKind.CALL:
        return {"text": block.text}
    return {"input": _input_of(block)}


def _input_of(block: Block) -> dict[str, Any]:
    """The input of a call, which is always an object.

    Arguments that are no object, or were cut, are a member of it. Otherwise a client would run the
    call without arguments.
    """
    arguments = block.arguments
    return {INVALID_JSON: block.text} if arguments is None else arguments


def _citation(part: Part, block: Block) -> dict[str, Any] | None:
    if part.name != "source" or block.kind is not PartKind.TEXT:
        return None
    match orjson.loads(part.text):
        case {"url": str(url), **more}:
            title, cited = more.get("title"), more.get("cited_text")
            return {
                "type": "web_search_result_location",
                "url": url,
                "title": title if isinstance(title, str) else None,
                "cited_text": cited if isinstance(cited, str) else "",
                "encrypted_index": "",
            }
    return None


def _stop_reason(stream: ResponseStream) -> str:
    contents = slice_of(stream.log.entries, 0).current
    if any(isinstance(part, Part) and part.kind is PartKind.REFUSAL for part in contents):
        return "refusal"
    return _STOP_REASONS.get(end_by_calls(stream), "end_turn")


def _usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    cached = usage.cached_tokens or 0
    usage_object: dict[str, Any] = {
        "input_tokens": usage.prompt_tokens - cached,
        "output_tokens": usage.completion_tokens,
    }
    if usage.cached_tokens is not None:
        usage_object["cache_read_input_tokens"] = cached
    if usage.reasoning_tokens is not None:
        usage_object["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return usage_object
