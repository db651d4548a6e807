"""A response as a message of AI SDK's chats: what its client has made of the chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from evenflow.stream_core.encoding.blocks import Begin, Block, BlockEvent, Blocks, End, Value
from evenflow.stream_core.log.entries import Content, Part, PartKind
from evenflow.stream_core.protocols.ai_sdk.encoder import (
    TYPES,
    UNSEEN,
    made_call,
    provider_metadata,
    tool_output,
)


def ui_message(message_id: str, contents: Iterable[Content], *, has_ended: bool) -> dict[str, Any]:
    """The message of an answer, as far as it has come."""
    message = _Message()
    blocks = Blocks()
    for content in contents:
        message.take(blocks.take(content))
    if has_ended:
        message.take(blocks.end())
    return {"id": message_id, "role": "assistant", "parts": message.parts}


class _Message:
    """The parts of one message."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = [{"type": "step-start"}]
        self._open: dict[int, dict[str, Any]] = {}  # by the numbers of their blocks
        self._calls: dict[str, dict[str, Any]] = {}

    def take(self, events: Iterable[BlockEvent]) -> None:
        """Add what has happened to the answer."""
        for event in events:
            if isinstance(event, Begin):
                self._begin(event.block)
            elif isinstance(event, End):
                self._end(event.block)
            elif isinstance(event, Value):
                self._add_value(event.part)
            elif event.block.kind is not PartKind.CALL:
                self._open[event.block.number]["text"] += event.text

    def _begin(self, block: Block) -> None:
        if block.kind is PartKind.CALL:
            part = {"type": f"tool-{block.name}", "toolCallId": block.id}
            part["state"] = "input-streaming"
            self._calls[block.id] = part
        else:
            part = {"type": TYPES[block.kind], "text": "", "state": "streaming"}
            if block.kind is PartKind.REASONING:
                part["id"] = str(block.number)
            part |= provider_metadata(block)
        self._open[block.number] = part
        self.parts.append(part)

    def _end(self, block: Block) -> None:
        part = self._open.pop(block.number)
        returned = provider_metadata(block)
        if block.kind is not PartKind.CALL:
            part |= {"state": "done", **returned}
            return
        if returned:
            part["callProviderMetadata"] = returned["providerMetadata"]
        call_chunk = made_call(block)
        if "errorText" in call_chunk:
            part |= {"state": "output-error", "rawInput": call_chunk["input"]}
            part["errorText"] = call_chunk["errorText"]
        else:
            part |= {"state": "input-available", "input": call_chunk["input"]}

    def _add_value(self, part: Part) -> None:
        if part.kind is PartKind.RESULT:
            if (call := self._calls.get(part.id)) is not None:
                output = tool_output(part.text)
                call |= {"state": "output-available", "output": output, "providerExecuted": True}
            return
        value = orjson.loads(part.text)
        if part.name == "source" and isinstance(value, dict) and "url" in value:
            source_id = part.id or f"source-{len(self.parts)}"
            titled = {"title": value["title"]} if value.get("title") else {}
            self.parts.append(
                {"type": "source-url", "sourceId": source_id, "url": value["url"], **titled}
            )
        elif part.name not in UNSEEN:
            self._add_data(f"data-{part.name}", part.id, value)

    def _add_data(self, name: str, data_id: str, value: object) -> None:
        """Data with the id of earlier ones take their place."""
        for part in self.parts:
            if data_id and (part["type"], part.get("id")) == (name, data_id):
                part["data"] = value
                return
        identity = {"id": data_id} if data_id else {}
        self.parts.append({"type": name, **identity, "data": value})
