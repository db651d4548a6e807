"""A response as the events of AG-UI 1.0.

Text and calls are one message of the assistant, until a tool's result comes: what follows it is
another. Reasoning is a message of its own. The cursor is in the events' ids, and in their metadata,
since the stock client drops ids: so it is in the messages that the client has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.answer_end import end_by_calls, pending_calls
from evenflow.stream_core.encoding.block_encoder import BlockPlace, WriteDelta
from evenflow.stream_core.encoding.blocks import Begin, Block, BlockEvent, Blocks, Value
from evenflow.stream_core.encoding.port import event_id, rest_of_id
from evenflow.stream_core.log.entries import CALL_EXTRA, EXTRA, LOGPROBS, Content, Part, PartKind
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.openai_chat.encoder import check_completed

METADATA = "evenflow"
"""The key of what we add to the metadata of events."""

_CURSOR = b',"metadata":{"%b":{"cursor":"' % METADATA.encode()
_UNSEEN = frozenset({LOGPROBS, "finish", EXTRA, CALL_EXTRA})
# Reasoning that a client returns without a field goes back in this one.
_USUAL = {"field": "reasoning_content"}
_USAGE = {
    "prompt_tokens": "inputTokens",
    "completion_tokens": "outputTokens",
    "cached_tokens": "cachedInputTokens",
    "reasoning_tokens": "reasoningTokens",
}


class AgUiEvents:
    """Writes a run's events (`BlockObjects`).

    Args:
        messages: the conversation as the client sent it. If it begins at the beginning and has
            messages of this response, the client drops them.
        seen_contents: the contents of this response that the client has.
    """

    resets = True

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        response_id: str,
        messages: list[dict[str, Any]],
        seen_contents: Iterable[Content] = (),
    ) -> None:
        self._run = {"threadId": thread_id, "runId": run_id}
        self._response_id = response_id
        own_messages = [message for message in messages if self._is_own(message)]
        self._earlier_messages = [message for message in messages if not self._is_own(message)]
        self._has_own = bool(own_messages)
        self._thoughts = [
            message["id"] for message in own_messages if message.get("role") == "reasoning"
        ]
        self._results = 0
        self._ids: dict[int, str] = {}
        self._open: dict[int, Block] = {}
        blocks = Blocks()
        for content in seen_contents:
            for event in blocks.take(content):
                self._record(event)

    def opening(self, place: BlockPlace, open_blocks: tuple[Block, ...]) -> bytes:
        """The beginning of the run, and of the blocks that are open where the client begins."""
        started = _event({"type": "RUN_STARTED", **self._run}, place)
        if self._has_own and place.last < 0:
            started += self._snapshot()
        return started + b"".join(self._began(block) for block in open_blocks)

    def begin(self, place: BlockPlace, block: Block) -> bytes:
        """A block begins."""
        self._record(Begin(block))
        return self._began(block, place if block.kind is PartKind.CALL else None)

    def deltas(self, block: Block, epoch: int) -> WriteDelta:
        """Return the writer of a block's deltas."""
        id_suffix = rest_of_id(epoch)
        prefix = b"%b\ndata: %b" % (id_suffix, self._before_delta(block))
        suffix = b'%b"}}}\n\n' % id_suffix
        return lambda text, _, last: (
            b"id: %d%b%b%b%d%b" % (last, prefix, orjson.dumps(text), _CURSOR, last, suffix)
        )

    def end(self, place: BlockPlace, block: Block) -> bytes:
        """A block ends."""
        self._open.pop(block.number, None)
        if block.kind is PartKind.CALL:
            end = _event({"type": "TOOL_CALL_END", "toolCallId": block.id}, place)
            return _sealed_event(block, "tool-call", block.id) + end
        message_id = self._ids.pop(block.number)
        sealed_event, identity = (
            _sealed_event(block, "message", message_id),
            {"messageId": message_id},
        )
        if block.kind is not PartKind.REASONING:
            return sealed_event + _event({"type": "TEXT_MESSAGE_END", **identity})
        end_event = _event({"type": "REASONING_MESSAGE_END", **identity})
        return sealed_event + end_event + _event({"type": "REASONING_END", **identity})

    def value(self, place: BlockPlace, part: Part, block: Block | None) -> bytes:
        """A result, or data."""
        self._record(Value(part, block))
        if part.kind is PartKind.RESULT:
            result = {"messageId": f"{self._response_id}.result.{part.id}", "toolCallId": part.id}
            return _event(
                {"type": "TOOL_CALL_RESULT", **result, "content": part.text, "role": "tool"}, place
            )
        if part.name in _UNSEEN:
            return b""
        value = orjson.loads(part.text)
        if part.name == "state":
            return _event({"type": "STATE_SNAPSHOT", "snapshot": value}, place)
        if part.name == "state_delta":
            return _event({"type": "STATE_DELTA", "delta": value}, place)
        return _event({"type": "CUSTOM", "name": part.name, "value": value}, place)

    def reset(self, place: BlockPlace) -> bytes:
        """The current conversation, without this answer."""
        ends = b"".join(self.end(place, block) for block in [*self._open.values()])
        self._results = 0
        return ends + self._snapshot()

    def finish(self, place: BlockPlace, stream: ResponseStream) -> bytes:
        """The end of the run.

        Raises:
            EvenflowError: the response ended with it.
        """
        finished = {"type": "RUN_FINISHED", **self._run}
        if stream.state is ResponseState.CANCELLED:
            return _event(finished | {"outcome": {"type": "cancelled"}})
        check_completed(stream)
        outcome: dict[str, Any] = {"type": "success"}
        reason = end_by_calls(stream)
        if reason == "tool_calls":
            outcome["pendingToolCallIds"] = pending_calls(stream)
        metadata = {METADATA: {"finish_reason": reason}}
        usage = {} if stream.usage is None else {"usage": [_usage_object(stream.usage.counted())]}
        return _event(finished | {"outcome": outcome, "metadata": metadata} | usage)

    def failure(self, error: EvenflowError) -> bytes:
        """An error that ends the run."""
        return _event({"type": "RUN_ERROR", "message": error.message, "code": error.code})

    def _record(self, event: BlockEvent) -> None:
        """Record the message of a block."""
        if isinstance(event, Value):
            self._results += event.part.kind is PartKind.RESULT
        elif isinstance(event, Begin):
            block = event.block
            if block.kind is PartKind.REASONING:
                message_id = f"{self._response_id}.reasoning.{block.number}"
                self._thoughts.append(message_id)
            else:
                message_id = self._response_id + (f".{self._results}" if self._results else "")
            self._ids[block.number] = message_id

    def _is_own(self, message: dict[str, Any]) -> bool:
        return str(message.get("id", "")).startswith(self._response_id)

    def _began(self, block: Block, place: BlockPlace | None = None) -> bytes:
        self._open[block.number] = block
        message_id = self._ids[block.number]
        if block.kind is PartKind.CALL:
            call = {"toolCallId": block.id, "toolCallName": block.name}
            start = {"type": "TOOL_CALL_START", **call, "parentMessageId": message_id}
            return _event(start, place)
        if block.kind is not PartKind.REASONING:
            return _event(
                {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"}
            )
        identity = {"messageId": message_id}
        return _event({"type": "REASONING_START", **identity}) + _event(
            {"type": "REASONING_MESSAGE_START", **identity, "role": "reasoning"}
        )

    def _before_delta(self, block: Block) -> bytes:
        """The event of a delta up to its text."""
        if block.kind is PartKind.CALL:
            return b'{"type":"TOOL_CALL_ARGS","toolCallId":%b,"delta":' % orjson.dumps(block.id)
        kind = b"REASONING" if block.kind is PartKind.REASONING else b"TEXT"
        return b'{"type":"%b_MESSAGE_CONTENT","messageId":%b,"delta":' % (
            kind,
            orjson.dumps(self._ids[block.number]),
        )

    def _snapshot(self) -> bytes:
        # After a snapshot without reasoning the client keeps all reasoning that it has.
        has_reasoning = any(
            message.get("role") == "reasoning" for message in self._earlier_messages
        )
        emptied = [] if has_reasoning else self._thoughts[:1]
        self._thoughts = emptied
        messages = [{"id": name, "role": "reasoning", "content": ""} for name in emptied]
        return _event(
            {"type": "MESSAGES_SNAPSHOT", "messages": [*self._earlier_messages, *messages]}
        )


def empty_run(thread_id: str, run_id: str) -> bytes:
    """The events of a run without a message to answer."""
    run = {"threadId": thread_id, "runId": run_id}
    finished = {"type": "RUN_FINISHED", **run, "outcome": {"type": "success"}}
    return _event({"type": "RUN_STARTED", **run}) + _event(finished)


def _sealed_event(block: Block, subtype: str, entity_id: str) -> bytes:
    """The opaque value that the client keeps of a block for the model's server."""
    if block.returned in ({}, _USUAL):
        return b""
    fields = {"subtype": subtype, "entityId": entity_id, "encryptedValue": block.sealed}
    return _event({"type": "REASONING_ENCRYPTED_VALUE", **fields})


def _usage_object(usage: dict[str, int]) -> dict[str, int]:
    total = usage["prompt_tokens"] + usage["completion_tokens"]
    return {_USAGE[name]: count for name, count in usage.items()} | {"totalTokens": total}


def _event(event: dict[str, Any], place: BlockPlace | None = None) -> bytes:
    if place is None:
        return b"data: %b\n\n" % orjson.dumps(event)
    cursor = event_id(place.last, place.epoch)
    event_fields = event | {"metadata": {METADATA: {"cursor": cursor}}}
    return b"id: %b\ndata: %b\n\n" % (cursor.encode(), orjson.dumps(event_fields))
