"""The output items of OpenAI's Responses API, from the blocks of an answer.

Each block is an item: a text or a refusal is a message with one part, a reasoning has one summary.
Fields that the model's server needs back are in a reasoning's `encrypted_content`, and next to the
other fields of a message or a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from evenflow.stream_core.encoding.blocks import Begin, Block, Blocks, SealingBlocks
from evenflow.stream_core.log.entries import Content, Part, PartKind
from evenflow.stream_core.protocols.openai_responses.ids import PublicResponse
from evenflow.stream_core.protocols.openai_responses.namespaces import (
    NO_NAMESPACES,
    Namespaces,
    name_fields,
)

_PREFIXES = {
    PartKind.TEXT: "msg",
    PartKind.REFUSAL: "msg",
    PartKind.REASONING: "rs",
    PartKind.CALL: "fc",
}


def item_id(response: PublicResponse, block: Block) -> str:
    """The id of a block's item."""
    return response.item("ctc" if block.custom else _PREFIXES[block.kind], block.number)


def part_of(block: Block, text: str = "") -> dict[str, Any]:
    """The part of a block's item with this text. Not for calls."""
    if block.kind is PartKind.REFUSAL:
        return {"type": "refusal", "refusal": text}
    if block.kind is PartKind.REASONING:
        return {"type": "summary_text", "text": text}
    values = [part for part in block.values if part.kind is PartKind.DATA]
    return {
        "type": "output_text",
        "text": text,
        "annotations": [annotation for part in values if (annotation := annotation_of(part))],
        "logprobs": [token for part in values for token in logprobs_of(part)] if text else [],
    }


def begun_item(
    response: PublicResponse, block: Block, spaces: Namespaces = NO_NAMESPACES
) -> dict[str, Any]:
    """A block's item when it begins, still empty."""
    item = {"id": item_id(response, block), "status": "in_progress"}
    if block.kind is PartKind.CALL:
        return block.extra | item | _call(block, "", spaces)
    if block.kind is PartKind.REASONING:
        return item | {"type": "reasoning", "summary": [], "encrypted_content": None}
    return item | {"type": "message", "role": "assistant", "content": []}


def whole_item(
    response: PublicResponse, block: Block, status: str, spaces: Namespaces = NO_NAMESPACES
) -> dict[str, Any]:
    """A block's item at its end. `status` is `completed` or `incomplete`."""
    item = {"id": item_id(response, block), "status": status}
    if block.kind is PartKind.CALL:
        return block.extra | item | _call(block, block.text, spaces)
    if block.kind is PartKind.REASONING:
        summary = [] if block.silent else [part_of(block, block.text)]
        sealed = block.sealed or None
        return item | {"type": "reasoning", "summary": summary, "encrypted_content": sealed}
    content = [part_of(block, block.text)]
    return block.extra | item | {"type": "message", "role": "assistant", "content": content}


def output_of(
    response: PublicResponse,
    contents: Iterable[Content],
    status: str,
    spaces: Namespaces = NO_NAMESPACES,
) -> list[dict[str, Any]]:
    """The items of an answer. `status` is that of items without an end."""
    blocks, all_of_them = read_blocks(contents)
    still_open = {block.number for block in blocks.open}
    return [
        whole_item(response, block, status if block.number in still_open else "completed", spaces)
        for block in all_of_them
    ]


def read_blocks(contents: Iterable[Content]) -> tuple[Blocks, list[Block]]:
    """All blocks of an answer, and what has read them."""
    blocks = SealingBlocks()
    all_blocks = [
        event.block
        for content in contents
        for event in blocks.take(content)
        if isinstance(event, Begin)
    ]
    return blocks, all_blocks


def annotation_of(part: Part) -> dict[str, Any] | None:
    """A source that the model names, as an annotation. None: it is none, or has no address."""
    if part.name != "source":
        return None
    source = orjson.loads(part.text)
    if not isinstance(source, dict) or not isinstance(source.get("url"), str):
        return None
    return {
        "type": "url_citation",
        "url": source["url"],
        "title": str(source.get("title") or ""),
        "start_index": _position(source, "start_index"),
        "end_index": _position(source, "end_index"),
    }


def logprobs_of(part: Part) -> Iterator[dict[str, Any]]:
    """The log probabilities of tokens. None if the part is something else."""
    if part.name == "logprobs":
        for token in orjson.loads(part.text).get("content") or ():
            top = [_token(other) for other in token.get("top_logprobs") or ()]
            yield _token(token) | {"top_logprobs": top}


def _token(token: dict[str, Any]) -> dict[str, Any]:
    """A token with its bytes, which some servers lack and clients' types need."""
    token_object = {"token": token["token"], "logprob": token["logprob"]}
    return token_object | {"bytes": token.get("bytes") or list(str(token["token"]).encode())}


def _call(block: Block, text: str, spaces: Namespaces) -> dict[str, Any]:
    kind, field = ("custom_tool_call", "input") if block.custom else ("function_call", "arguments")
    return {"type": kind, "call_id": block.id, **name_fields(block.name, spaces), field: text}


def _position(source: dict[str, Any], name: str) -> int:
    index = source.get(name)
    return index if isinstance(index, int) else 0
