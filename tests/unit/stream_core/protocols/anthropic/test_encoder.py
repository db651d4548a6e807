"""Calls and ends as Anthropic's clients are told them, streamed and whole alike."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.log.entries import Content, Part, PartKind
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.protocols.anthropic.encoder import AnthropicObjects
from tests.unit.stream_core.encoding.test_block_encoder import answer
from tests.unit.stream_core.protocols.readers import events_of

_CALL = Part(PartKind.CALL, call=0, id="call_1", name="add")
_END = Part(PartKind.CALL_END, call=0)
_RESULT = Part(PartKind.RESULT, "3", id="call_1", name="add")


def _ended(*contents: Content, reason: str = "stop") -> ResponseStream:
    stream = answer(*contents)
    stream.complete(reason, None)
    return stream


def _objects() -> AnthropicObjects:
    return AnthropicObjects("rsp_1", "demo", thinking=True)


def _events(stream: ResponseStream, next_index: int = 0) -> list[dict[str, Any]]:
    encoder = BlockEncoder(_objects(), stream, ResumePoint(next_index), 20)
    data = encoder.opening
    while more := encoder.take():
        data += more
    return [orjson.loads(event.data) for event in events_of(data)]


def _streamed_input(events: list[dict[str, Any]]) -> Any:
    """What a client makes of the deltas of the only call."""
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return orjson.loads("".join(delta["partial_json"] for delta in deltas))


def _stop_reasons(stream: ResponseStream) -> tuple[str, str]:
    """Why an answer ended, streamed and whole."""
    (delta,) = (event for event in _events(stream) if event["type"] == "message_delta")
    return delta["delta"]["stop_reason"], _objects().whole(stream)["stop_reason"]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ('{"a": 1}', {"a": 1}),
        (' {"a": 1}\n', {"a": 1}),
        ("", {}),
        (" ", {}),
        ("null", {}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ('"x"', {"INVALID_JSON": '"x"'}),
        ('{"path": "/etc"', {"INVALID_JSON": '{"path": "/etc"'}),
        ('{"a":1}{"a":2}', {"INVALID_JSON": '{"a":1}{"a":2}'}),
        ('{"text": "%s"}' % ("流" * 20_000), {"text": "流" * 20_000}),
    ],
)
def test_the_input_of_a_call_is_an_object_and_what_is_none_is_seen(
    arguments: str, given: dict[str, Any]
) -> None:
    pieces = [
        Part(PartKind.ARGUMENTS, arguments[at : at + 7]) for at in range(0, len(arguments), 7)
    ]
    stream = _ended(_CALL, *pieces, _END)
    (block,) = _objects().whole(stream)["content"]
    assert block["input"] == given
    assert _streamed_input(_events(stream)) == given


def test_who_comes_back_in_the_middle_of_a_call_is_told_its_whole_input() -> None:
    stream = _ended(_CALL, Part(PartKind.ARGUMENTS, '{"a":'), Part(PartKind.ARGUMENTS, "1}"), _END)
    for next_index in (1, 2, 3):
        assert _streamed_input(_events(stream, next_index)) == {"a": 1}
    assert [event["type"] for event in _events(stream, 4)] == ["message_delta", "message_stop"]


@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
def test_an_answer_with_calls_to_run_ends_with_tool_use(reason: str) -> None:
    stream = _ended("Let me see.", _CALL, _END, reason=reason)
    assert _stop_reasons(stream) == ("tool_use", "tool_use")


@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
@pytest.mark.parametrize("contents", [("Hi",), (_CALL, _END, _RESULT, "3")])
def test_an_answer_without_calls_to_run_ends_its_turn(
    contents: tuple[Content, ...], reason: str
) -> None:
    assert _stop_reasons(_ended(*contents, reason=reason)) == ("end_turn", "end_turn")


@pytest.mark.parametrize(
    ("reason", "told"), [("length", "max_tokens"), ("content_filter", "refusal")]
)
def test_a_cut_answer_with_a_call_says_what_cut_it(reason: str, told: str) -> None:
    assert _stop_reasons(_ended(_CALL, _END, reason=reason)) == (told, told)
