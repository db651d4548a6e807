"""What a model's server needs back comes back to it, as it was, by every protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from evenflow.fargate_handler.gateway.ag_ui import messages as ag_ui_messages
from evenflow.fargate_handler.gateway.ai_sdk import messages as ai_sdk_messages
from evenflow.fargate_handler.gateway.anthropic import request as messages_request
from evenflow.fargate_handler.gateway.openai_chat import request as completion_request
from evenflow.fargate_handler.gateway.openai_responses.input_turns import InputTurns
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.fargate_handler.token_sources.conversation_forms import openai_message
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.encoding.blocks import Blocks, SealingBlocks
from evenflow.stream_core.log.entries import CALL_EXTRA, EXTRA, Content, Part, PartKind
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.log.returned_fields import detail_of
from evenflow.stream_core.protocols.ag_ui.bodies import RUN_REQUEST
from evenflow.stream_core.protocols.ag_ui.encoder import AgUiEvents
from evenflow.stream_core.protocols.ai_sdk.bodies import CHAT_REQUEST
from evenflow.stream_core.protocols.ai_sdk.encoder import UIMessageChunks
from evenflow.stream_core.protocols.ai_sdk.parts import ui_message
from evenflow.stream_core.protocols.anthropic.encoder import AnthropicObjects
from evenflow.stream_core.protocols.evenflow.messages import parse
from evenflow.stream_core.protocols.openai_chat.deltas import WholeChoice
from evenflow.stream_core.protocols.openai_chat.encoder import ChunkEncoder
from evenflow.stream_core.protocols.openai_chat.whole_answer import CompletionObjects
from evenflow.stream_core.protocols.openai_responses.encoder import JsonLines, ResponseEvents
from evenflow.stream_core.protocols.openai_responses.output_items import output_of
from evenflow.stream_core.protocols.openai_responses.whole_answer import ResponseObject
from evenflow.stream_core.session.conversation import Turn
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream
from tests.unit.stream_core.protocols.readers import PUBLIC, events_of

_TEXT = {"type": "reasoning.text", "index": 0, "format": "x"}
_HIDDEN = {"type": "reasoning.encrypted", "index": 1, "data": "c2ln"}
_SIGNATURE = {"google": {"thought_signature": "c2ln"}}
_USER = {"role": "user", "content": "hi"}


def _fields(fields: dict[str, Any], name: str = EXTRA, call: int = 0) -> Part:
    return Part(PartKind.DATA, orjson.dumps(fields).decode(), call=call, name=name)


_DETAIL = detail_of("reasoning_details", _TEXT, "text")
_REASONED = [
    Part(PartKind.REASONING, "h", id=_DETAIL, name="reasoning"),
    Part(PartKind.REASONING, "m", id=_DETAIL, name="reasoning"),
    _fields({"reasoning_details": [{**_TEXT, "signature": "s"}]}),
    _fields({"reasoning_details": [_HIDDEN]}),
]
_CALLED = [
    _fields({"extra_content": _SIGNATURE, "function": {"part": 1}}, CALL_EXTRA),
    Part(PartKind.CALL, id="c1", name="f"),
    Part(PartKind.ARGUMENTS, '{"x":1}'),
    Part(PartKind.CALL_END),
    Part(PartKind.CALL, call=1, id="c2", name="f"),
    Part(PartKind.ARGUMENTS, "{}", call=1),
    Part(PartKind.CALL_END, call=1),
]
_DETAILS = [{**_TEXT, "text": "hm", "signature": "s"}, _HIDDEN]
_CALLS = [
    {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": '{"x":1}', "part": 1},
        "extra_content": _SIGNATURE,
    },
    {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
]
_SIGNED = _fields({"extra_content": _SIGNATURE}, CALL_EXTRA)
_SIGNED_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": '{"x":1}'},
    "extra_content": _SIGNATURE,
}
_BUILTIN = {
    "id": "c1",
    "type": "builtin_function",
    "function": {"name": "f", "arguments": '{"x":1}'},
}
_CASES: dict[str, tuple[list[Content], dict[str, Any]]] = {
    "calls": ([*_CALLED], {"tool_calls": _CALLS}),
    "reasoning and calls": (
        [*_REASONED, *_CALLED],
        {"reasoning": "hm", "reasoning_details": _DETAILS, "tool_calls": _CALLS},
    ),
    "encrypted alone": (
        [_fields({"reasoning_details": [_HIDDEN]}), *_CALLED],
        {"reasoning_details": [_HIDDEN], "tool_calls": _CALLS},
    ),
    "behind the calls": (
        [*_CALLED[:3], _fields({"reasoning_details": [_HIDDEN]}), *_CALLED[3:]],
        {"reasoning_details": [_HIDDEN], "tool_calls": _CALLS},
    ),
    "late fields of calls": (
        [*_CALLED[1:3], _SIGNED, *_CALLED[3:]],
        {"tool_calls": [_SIGNED_CALL, _CALLS[1]]},
    ),
    "fields of an ended call": (
        [*_CALLED[1:6], _SIGNED, _CALLED[6]],
        {"tool_calls": [_SIGNED_CALL, _CALLS[1]]},
    ),
    "a type of its own": (
        [_fields({"call_type": "builtin_function"}, CALL_EXTRA), *_CALLED[1:4]],
        {"tool_calls": [_BUILTIN]},
    ),
    "reasoning alone": (
        [Part(PartKind.REASONING, "hm", name="reasoning_content"), *_CALLED],
        {"reasoning_content": "hm", "tool_calls": _CALLS},
    ),
    "of a text": (
        [*_REASONED, "Hello", _fields({"extra_content": _SIGNATURE})],
        {
            "content": "Hello",
            "reasoning": "hm",
            "reasoning_details": _DETAILS,
            "extra_content": _SIGNATURE,
        },
    ),
}


def _ended(contents: list[Content]) -> ResponseStream:
    stream = new_stream(HandTurnedClock())
    stream.log.extend(contents)
    stream.complete("stop", None)
    return stream


def _known(told: dict[str, Any], *names: str) -> dict[str, Any]:
    """What a client keeps that knows only these fields."""
    return {name: value for name, value in told.items() if name in names}


def _told(
    objects: Any, stream: ResponseStream, blocks: type[Blocks] = Blocks
) -> list[dict[str, Any]]:
    """The events of a protocol."""
    encoder = BlockEncoder(objects, stream, ResumePoint(0), 10_000, blocks)
    data = encoder.opening
    while more := encoder.take():
        data += more
    return [orjson.loads(event.data) for event in events_of(data) if event.data != b"[DONE]"]


# -- each protocol: what its client keeps of an answer, as the turns of the next request -----------


def _completion(message: dict[str, Any]) -> tuple[Turn, ...]:
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "7"}
        for call in message.get("tool_calls", ())
    ]
    asked = {"model": "m", "messages": [_USER, message, *results]}
    return completion_request.read_call(orjson.dumps(asked)).request.turns


def _by_whole_completion(stream: ResponseStream) -> tuple[Turn, ...]:
    objects = CompletionObjects("rsp_1", 7, "m", include_usage=False, tools=True)
    return _completion(objects.whole(stream)["choices"][0]["message"])


def _by_chunks(stream: ResponseStream) -> tuple[Turn, ...]:
    objects = CompletionObjects("rsp_1", 7, "m", include_usage=False, tools=True)
    choice = WholeChoice(0)
    for index in range(len(stream.log.entries)):  # the client comes back behind each entry
        encoder = ChunkEncoder(objects, stream, ResumePoint(index), 1)
        for event in events_of(encoder.take()):
            if event.data != b"[DONE]" and int(event.id or 0) == index:
                for told in orjson.loads(event.data)["choices"]:
                    choice.add(told)
    return _completion(choice.to_object()["message"])


def _input(items: list[dict[str, Any]]) -> tuple[Turn, ...]:
    turns = InputTurns()
    for place, item in enumerate(items):
        turns.take(item, f"input.{place}.")
    return turns.turns


def _by_items(stream: ResponseStream) -> tuple[Turn, ...]:
    return _input(output_of(PUBLIC, stream.log.read(0).current, "completed"))


def _by_response_events(stream: ResponseStream) -> tuple[Turn, ...]:
    events = ResponseEvents(ResponseObject(PUBLIC, 7, {}), JsonLines())
    encoder = BlockEncoder(events, stream, ResumePoint(0), 10_000, SealingBlocks)
    lines = encoder.opening
    while more := encoder.take():
        lines += more
    told = [orjson.loads(line) for line in lines.splitlines()]
    return _input([one["item"] for one in told if one["type"] == "response.output_item.done"])


def _message(content: list[dict[str, Any]]) -> tuple[Turn, ...]:
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "7"}
        for block in content
        if block["type"] == "tool_use"
    ]
    answered = {"role": "user", "content": results or "more"}
    messages = [_USER, {"role": "assistant", "content": content}, answered]
    asked = {"model": "m", "max_tokens": 9, "messages": messages}
    return messages_request.read_call(orjson.dumps(asked)).request.turns


def _by_whole_message(stream: ResponseStream) -> tuple[Turn, ...]:
    return _message(AnthropicObjects("rsp_1", "m", thinking=True).whole(stream)["content"])


def _by_message_events(stream: ResponseStream) -> tuple[Turn, ...]:
    blocks: dict[int, dict[str, Any]] = {}
    for event in _told(AnthropicObjects("rsp_1", "m", thinking=True), stream, SealingBlocks):
        if event["type"] == "content_block_start":
            blocks[event["index"]] = event["content_block"] | {"json": ""}
        elif event["type"] == "content_block_delta":
            block, (_, *told) = blocks[event["index"]], event["delta"].items()
            for given, more in told:
                name = "json" if given == "partial_json" else given
                block[name] = more if name == "signature" else block[name] + more
    content = []
    for block in blocks.values():
        made = block.pop("json")
        content.append(block | ({"input": orjson.loads(made)} if made else {}))
    return _message(content)


def _chat(parts: list[dict[str, Any]]) -> tuple[Turn, ...]:
    answered = [
        part | ({"state": "output-available", "output": "7"} if "toolCallId" in part else {})
        for part in parts
    ]
    messages = [
        {"role": "user", "parts": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "parts": answered},
    ]
    asked = parse(CHAT_REQUEST, orjson.dumps({"id": "c1", "messages": messages}))
    return ai_sdk_messages.turns_of(asked.messages)


def _by_stored_chat(stream: ResponseStream) -> tuple[Turn, ...]:
    return _chat(ui_message("m1", stream.log.read(0).current, has_ended=True)["parts"])


def _by_ui_chunks(stream: ResponseStream) -> tuple[Turn, ...]:
    parts: dict[str, dict[str, Any]] = {}
    for chunk in _told(UIMessageChunks("m1"), stream):
        kept = _known(chunk, "providerMetadata")
        match chunk["type"]:
            case "text-start" | "reasoning-start":
                kind = chunk["type"].removesuffix("-start")
                parts[chunk["id"]] = {"type": kind, "text": "", **kept}
            case "text-delta" | "reasoning-delta":
                parts[chunk["id"]]["text"] += chunk["delta"]
            case "text-end" | "reasoning-end":
                parts[chunk["id"]] |= kept
            case "tool-input-available":
                call = {"type": "tool-f", "toolCallId": chunk["toolCallId"]}
                kept = {f"call{key[0].upper()}{key[1:]}": value for key, value in kept.items()}
                parts[chunk["toolCallId"]] = call | {"input": chunk["input"]} | kept
    return _chat(list(parts.values()))


def _by_run_events(stream: ResponseStream) -> tuple[Turn, ...]:
    """As AG-UI's client applies them."""
    messages: dict[str, dict[str, Any]] = {"u": {"id": "u", **_USER}}
    calls: dict[str, dict[str, Any]] = {}
    for event in _told(AgUiEvents("t", "r", "rsp_1", []), stream):
        match event:
            case {"type": "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START", "messageId": name}:
                messages[name] = {"id": name, "role": event["role"], "content": ""}
            case {"type": "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT"}:
                messages[event["messageId"]]["content"] += event["delta"]
            case {"type": "TOOL_CALL_START", "toolCallId": call_id, "parentMessageId": name}:
                calls[call_id] = {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": event["toolCallName"], "arguments": ""},
                }
                parent = messages.setdefault(name, {"id": name, "role": "assistant"})
                parent.setdefault("toolCalls", []).append(calls[call_id])
            case {"type": "TOOL_CALL_ARGS"}:
                calls[event["toolCallId"]]["function"]["arguments"] += event["delta"]
            case {"type": "REASONING_ENCRYPTED_VALUE", "subtype": subtype}:
                owner = calls if subtype == "tool-call" else messages
                owner[event["entityId"]]["encryptedValue"] = event["encryptedValue"]
    results = [
        {"id": f"t{name}", "role": "tool", "toolCallId": name, "content": "7"} for name in calls
    ]
    body = {"threadId": "t", "runId": "r2", "messages": [*messages.values(), *results]}
    asked = parse(RUN_REQUEST, orjson.dumps(body))
    return ag_ui_messages.turns_of(asked.messages, asked.context)


_PROTOCOLS: tuple[Callable[[ResponseStream], tuple[Turn, ...]], ...] = (
    _by_whole_completion,
    _by_chunks,
    _by_items,
    _by_response_events,
    _by_whole_message,
    _by_message_events,
    _by_stored_chat,
    _by_ui_chunks,
    _by_run_events,
)


_TOLD = [(answered, case) for answered in _PROTOCOLS for case in _CASES]
# Anthropic's API has no event that adds a field to a text.
_TOLD.remove((_by_message_events, "of a text"))
# Nor have these any for a call that has ended.
for _answered in (_by_stored_chat, _by_ui_chunks, _by_run_events):
    _TOLD.remove((_answered, "fields of an ended call"))


@pytest.mark.parametrize(("answered", "case"), _TOLD)
def test_what_the_server_gave_comes_back_to_it(
    answered: Callable[[ResponseStream], tuple[Turn, ...]], case: str
) -> None:
    contents, message = _CASES[case]
    turns = answered(_ended(contents))
    kept = WholeRequest.from_text(WholeRequest(turns).to_text()).turns  # as the ledger has it
    (told,) = (openai_message(turn) for turn in kept if turn.role == "assistant")
    assert told == {"role": "assistant", "content": None} | message


def test_who_is_not_told_thoughts_is_told_the_fields_of_calls() -> None:
    contents, _ = _CASES["encrypted alone"]
    content = AnthropicObjects("rsp_1", "m", thinking=False).whole(_ended(contents))["content"]
    assert [block["type"] for block in content] == ["tool_use", "tool_use"]
    assert content[0]["extra_content"] == _SIGNATURE


_BROKEN = "evenflow:{"


def _refused(read: Callable[[], object]) -> str | None:
    with pytest.raises(InvalidRequest) as refused:
        read()
    assert "not as it was given" in refused.value.message
    return refused.value.param


def test_what_is_not_as_it_was_given_is_refused_by_its_place() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": _BROKEN}
    assert _refused(lambda: _input([item])) == "input.0.encrypted_content"
    thought = {"type": "thinking", "thinking": "hm", "signature": _BROKEN}
    assert _refused(lambda: _message([thought])) == "messages.1.content.0.signature"
    hidden = {"type": "redacted_thinking", "data": _BROKEN}
    assert _refused(lambda: _message([hidden])) == "messages.1.content.0.data"
    part = {"type": "text", "text": "a", "providerMetadata": {"evenflow": {"extra": 7}}}
    assert _refused(lambda: _chat([part])) == "messages.1.parts.0.providerMetadata.evenflow"
    said = {"id": "r", "role": "reasoning", "content": "hm", "encryptedValue": _BROKEN}
    body = {"threadId": "t", "runId": "r", "messages": [said]}
    asked = parse(RUN_REQUEST, orjson.dumps(body))
    where = _refused(lambda: ag_ui_messages.turns_of(asked.messages, asked.context))
    assert where == "messages.0.encryptedValue"


def test_what_another_server_has_signed_is_not_for_this_one() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "EqQBCgIYAhIM"}
    hidden = {"type": "redacted_thinking", "data": "EqQBCgIYAhIM"}
    said = {"type": "text", "text": "Hello"}
    assert _message([thought, hidden, said])[1] == Turn("assistant", "Hello")


@pytest.mark.parametrize(
    "case", ["calls", "reasoning and calls", "encrypted alone", "late fields of calls"]
)
def test_clients_that_keep_only_known_fields_give_all_back_too(case: str) -> None:
    contents, message = _CASES[case]
    stream = _ended(contents)
    of_items = ("type", "call_id", "name", "arguments", "summary", "encrypted_content")
    items = output_of(PUBLIC, stream.log.read(0).current, "completed")
    of_blocks = ("type", "id", "name", "input", "thinking", "signature", "data")
    content = AnthropicObjects("rsp_1", "m", thinking=True).whole(stream)["content"]
    for turns in (
        _input([_known(item, *of_items) for item in items]),
        _message([_known(block, *of_blocks) for block in content]),
    ):
        (told,) = (openai_message(turn) for turn in turns if turn.role == "assistant")
        assert told == {"role": "assistant", "content": None} | message


@pytest.mark.parametrize("kept", ['{"call":7}', '{"call":{},"call_id":7}'])
def test_fields_of_a_call_are_wrong_if_they_are_no_object_or_of_no_call(kept: str) -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": f"evenflow:{kept}"}
    assert _refused(lambda: _input([item])) == "input.0.encrypted_content"
