from __future__ import annotations

from typing import Any

import orjson
import pytest

from evenflow.stream_core.log.entries import CALL_EXTRA, EXTRA, Content, Part, PartKind
from evenflow.stream_core.protocols.ai_sdk.parts import ui_message

_CALL = Part(PartKind.CALL, call=0, id="call_1", name="add")
_ARGUMENTS = Part(PartKind.ARGUMENTS, '{"a": 1}', call=0)
_END = Part(PartKind.CALL_END, call=0)


def _parts(*contents: Content, has_ended: bool = True) -> list[dict[str, Any]]:
    message = ui_message("rsp_1", contents, has_ended=has_ended)
    assert (message["id"], message["role"]) == ("rsp_1", "assistant")
    step, *parts = message["parts"]
    assert step == {"type": "step-start"}
    return list(parts)


def test_what_the_model_says_and_thinks_is_joined() -> None:
    thought = Part(PartKind.REASONING, "Hm", name="reasoning")
    assert _parts(thought, "So ", "it is.", has_ended=False) == [
        {
            "type": "reasoning",
            "id": "0",
            "text": "Hm",
            "state": "done",
            "providerMetadata": {"evenflow": {"field": "reasoning"}},
        },
        {"type": "text", "text": "So it is.", "state": "streaming"},
    ]
    assert _parts("So", Part(PartKind.REFUSAL, "No")) == [
        {"type": "text", "text": "So", "state": "done"},
        {"type": "text", "text": "No", "state": "done"},
    ]


@pytest.mark.parametrize(
    ("contents", "state"),
    [
        ([_CALL, _ARGUMENTS], {"state": "input-streaming"}),
        ([_CALL, _ARGUMENTS, _END], {"state": "input-available", "input": {"a": 1}}),
        (
            [_CALL, _ARGUMENTS, _END, Part(PartKind.RESULT, '{"b": 2}', id="call_1")],
            {
                "state": "output-available",
                "input": {"a": 1},
                "output": {"b": 2},
                "providerExecuted": True,
            },
        ),
    ],
)
def test_a_call_is_as_far_as_it_has_come(contents: list[Content], state: dict[str, Any]) -> None:
    (call,) = _parts(*contents, has_ended=False)
    assert call == {"type": "tool-add", "toolCallId": "call_1"} | state


def test_a_call_that_was_cut_off_says_so() -> None:
    (call,) = _parts(_CALL, Part(PartKind.ARGUMENTS, '{"a', call=0))
    assert (call["state"], call["rawInput"]) == ("output-error", '{"a')
    assert "no JSON object" in call["errorText"]


def test_sources_and_data_stand_where_they_came() -> None:
    source = Part(PartKind.DATA, '{"url": "https://e.org/", "title": "E"}', name="source")
    parts = _parts(
        "So",
        source,
        Part(PartKind.DATA, "1", name="weather", id="w"),
        Part(PartKind.DATA, '"stop"', name="finish"),
        Part(PartKind.DATA, "2", name="weather", id="w"),
        Part(PartKind.RESULT, "of no call", id="call_9"),
        ".",
    )
    assert parts == [
        {"type": "text", "text": "So.", "state": "done"},
        {"type": "source-url", "sourceId": "source-2", "url": "https://e.org/", "title": "E"},
        {"type": "data-weather", "id": "w", "data": 2},
    ]


def test_what_the_server_needs_back_belongs_to_its_part() -> None:
    fields = {"extra_content": {"a": 1}}
    value = orjson.dumps(fields).decode()
    thought = Part(PartKind.REASONING, "Hm", name="thinking")
    of_thought = Part(PartKind.DATA, value, name=EXTRA)
    of_call = Part(PartKind.DATA, value, name=CALL_EXTRA)
    reasoning, call = _parts(thought, of_thought, of_call, _CALL, _ARGUMENTS, _END)
    assert reasoning["providerMetadata"] == {"evenflow": {"field": "thinking", "extra": fields}}
    assert call["callProviderMetadata"] == {"evenflow": {"extra": fields}}
