"""An answer of a model's server through Evenflow, without its sockets: reader, log and encoders."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from evenflow.fargate_handler.token_sources.answer_body import AnswerBody
from evenflow.fargate_handler.token_sources.openai_answer import OpenAIAnswer
from evenflow.fargate_handler.token_sources.openai_failures import Failures
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.encoding.serial_blocks import SerialBlocks
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.protocols.ai_sdk.parts import ui_message
from evenflow.stream_core.protocols.anthropic.encoder import AnthropicObjects
from evenflow.stream_core.protocols.openai_chat.encoder import ChunkEncoder
from evenflow.stream_core.protocols.openai_chat.whole_answer import CompletionObjects
from evenflow.stream_core.protocols.openai_responses.ids import PublicResponse
from evenflow.stream_core.protocols.openai_responses.whole_answer import ResponseObject
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream

_MOST = 65_536
_PUBLIC = PublicResponse(f"rsp_{7:032x}", f"{9:040x}")


@dataclass(frozen=True)
class Passed:
    """An answer as Evenflow passes it on.

    Args:
        body: as a stream of chunks.
        texts, calls: text and arguments as every other form of it has them, by the form's name.
    """

    body: bytes
    texts: dict[str, str]
    calls: dict[str, list[str]]


def passed_on(pieces: Iterable[bytes], choices: int) -> Passed:
    """An answer that the model's server sends in these pieces."""
    stream = _generated(pieces, choices)
    texts, calls = {}, {}
    for name, (text, arguments) in _whole_forms(stream).items():
        texts[name], calls[name] = text, arguments
    return Passed(_streamed(stream), texts, calls)


def _generated(pieces: Iterable[bytes], choices: int) -> ResponseStream:
    stream = new_stream(HandTurnedClock())
    body = AnswerBody(OpenAIAnswer(stream, Failures(), choices=choices), stream)
    try:
        for piece in pieces:
            more = body.take(piece)
            while more and body.waits:
                more = body.take(b"")
            if not more:
                break
        finish = body.finish()
    except EvenflowError as error:
        stream.flush()
        stream.fail(error.to_object())
    else:
        stream.complete(finish.finish_reason, finish.usage)
    return stream


def _streamed(stream: ResponseStream) -> bytes:
    objects = CompletionObjects("rsp_1", 7, "m", include_usage=True, tools=True)
    encoder = ChunkEncoder(objects, stream, ResumePoint(0), _MOST)
    parts = [encoder.opening]
    try:
        while data := encoder.take():
            parts.append(data)
    except EvenflowError as error:
        parts.append(encoder.failure(error))
    return b"".join(parts)


def _whole_forms(stream: ResponseStream) -> dict[str, tuple[str, list[str]]]:
    """Text and arguments in each form that tells an answer whole, and in Anthropic's events."""
    objects = CompletionObjects("rsp_1", 7, "m", include_usage=True, tools=True)
    message = objects.whole(stream)["choices"][0]["message"]
    chat_calls = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    forms = {"chat": (message["content"] or "", chat_calls)}
    output = ResponseObject(_PUBLIC, 7, {"model": "m"}).at_present(stream)["output"]
    told = [item["content"][0] for item in output if item["type"] == "message"]
    text = "".join(part["text"] for part in told if part["type"] == "output_text")
    called = [item["arguments"] for item in output if item["type"] == "function_call"]
    forms["responses"] = (text, called)
    parts = ui_message("m", stream.log.read(0).current, has_ended=True)["parts"]
    forms["ui"] = ("".join(part["text"] for part in parts if part["type"] == "text"), chat_calls)
    forms["messages"] = _anthropic_form(stream)
    return forms


def _anthropic_form(stream: ResponseStream) -> tuple[str, list[str]]:
    """What Anthropic's clients add up: the blocks come one after the other."""
    objects = AnthropicObjects("rsp_1", "m", thinking=True)
    encoder = BlockEncoder(objects, stream, ResumePoint(0), _MOST, SerialBlocks)
    blocks: list[dict[str, Any]] = []
    is_open = False
    with suppress(EvenflowError):  # behind all that the answer has
        while data := encoder.take():
            for event in _events(data):
                if event["type"] == "content_block_start":
                    assert not is_open, "a block begins within another"
                    assert event["index"] == len(blocks)
                    blocks.append({"type": event["content_block"]["type"], "said": ""})
                elif event["type"] == "content_block_delta":
                    assert event["index"] == len(blocks) - 1
                    delta = event["delta"]
                    blocks[-1]["said"] += delta.get("text") or delta.get("partial_json") or ""
                is_open = event["type"] in ("content_block_start", "content_block_delta")
    text = "".join(block["said"] for block in blocks if block["type"] == "text")
    return text, [block["said"] for block in blocks if block["type"] == "tool_use"]


def _events(data: bytes) -> Iterable[dict[str, Any]]:
    for line in data.split(b"\n"):
        if line.startswith(b"data: "):
            yield orjson.loads(line[6:])
