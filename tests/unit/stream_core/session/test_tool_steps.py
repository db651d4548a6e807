from __future__ import annotations

from evenflow.stream_core.log.entries import (
    CALL_EXTRA,
    CHUNK_EXTRA,
    EXTRA,
    LogEntry,
    Part,
    PartKind,
    Restart,
)
from evenflow.stream_core.session.conversation import ToolCall, Turn
from evenflow.stream_core.session.tool_steps import tool_steps


def called(number: int, call_id: str, arguments: str = "{}") -> list[LogEntry]:
    """A call of the tool `f`, its arguments in two pieces."""
    return [
        Part(PartKind.CALL, call=number, id=call_id, name="f"),
        Part(PartKind.ARGUMENTS, arguments[:1], call=number),
        Part(PartKind.ARGUMENTS, arguments[1:], call=number),
        Part(PartKind.CALL_END, call=number),
    ]


def result(call_id: str, text: str = "7") -> Part:
    return Part(PartKind.RESULT, text, id=call_id, name="f")


def test_text_alone_has_no_steps() -> None:
    steps = tool_steps(["Hel", "lo"])
    assert (steps.turns, steps.last_index, steps.open_calls) == ((), -1, {})
    assert not steps.awaits_results
    assert steps.next_call == 0


def test_a_call_is_open_until_its_result_comes() -> None:
    steps = tool_steps(["I look. ", *called(0, "c1", '{"a":1}')])
    assert steps.open_calls == {"c1": ToolCall("c1", "f", '{"a":1}')}
    assert steps.awaits_results
    assert (steps.turns, steps.last_index, steps.answered) == ((), -1, frozenset())


def test_a_step_with_all_results_is_the_model_s_turn_and_those_of_its_tools() -> None:
    log = ["I look. ", *called(0, "c1"), *called(1, "c2"), result("c2", "two"), result("c1", "one")]
    steps = tool_steps([*log, "So "])
    assert steps.turns == (
        Turn("assistant", "I look. ", (ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}"))),
        Turn("tool", "one", tool_call_id="c1"),
        Turn("tool", "two", tool_call_id="c2"),
    )
    assert steps.last_index == len(log) - 1
    assert steps.next_call == 2
    assert (steps.open_calls, steps.answered) == ({}, frozenset({"c1", "c2"}))
    assert not steps.awaits_results, "the model was in the middle of a text"


def test_some_results_of_a_step_are_not_all() -> None:
    steps = tool_steps([*called(0, "c1"), *called(1, "c2"), result("c1")])
    assert list(steps.open_calls) == ["c2"]
    assert steps.awaits_results
    assert (steps.turns, steps.last_index) == ((), -1)


def test_a_model_that_was_lost_in_the_middle_of_a_call_waits_for_nothing() -> None:
    steps = tool_steps([*called(0, "c1"), result("c1"), *called(1, "c2")[:2]])
    assert not steps.awaits_results
    assert steps.last_index == 4


def test_steps_follow_each_other() -> None:
    steps = tool_steps([*called(0, "c1"), result("c1"), *called(1, "c2"), result("c2")])
    assert [turn.role for turn in steps.turns] == ["assistant", "tool", "assistant", "tool"]
    assert steps.next_call == 2


def test_reasoning_goes_back_in_the_field_it_came_in() -> None:
    thought = [
        Part(PartKind.REASONING, "Hm", name="reasoning_content"),
        Part(PartKind.REASONING, "m.", name="reasoning_content"),
    ]
    steps = tool_steps([*thought, *called(0, "c1"), result("c1")])
    assert steps.turns[0].extra == {"reasoning_content": "Hmm."}


def test_what_was_replaced_is_no_step() -> None:
    replaced = [*called(0, "c1"), Restart(-1, 2), "No tool. "]
    assert not tool_steps(replaced).open_calls
    kept = [*called(0, "c1"), result("c1"), "bad", Restart(4, 2), *called(1, "c2")]
    steps = tool_steps(kept)
    assert (steps.last_index, list(steps.open_calls)) == (4, ["c2"])


def test_what_the_server_needs_back_goes_with_the_step() -> None:
    detail = '{"reasoning_details":{"type":"reasoning.text","text":""}}'
    log = [
        Part(PartKind.REASONING, "I ", name="reasoning", id=detail),
        Part(PartKind.REASONING, "look.", name="reasoning", id=detail),
        Part(
            PartKind.DATA,
            '{"reasoning_details":[{"type":"reasoning.text","signature":"s"}]}',
            name=EXTRA,
        ),
        Part(PartKind.DATA, '{"extra_content":{"g":1}}', call=0, name=CALL_EXTRA),
        *called(0, "c1"),
        Part(PartKind.DATA, '{"opaque":"x"}', name=EXTRA),
        Part(PartKind.DATA, '{"chunk":{"provider":"P"}}', name=CHUNK_EXTRA),
    ]
    assert tool_steps(log).awaits_results
    turn, _ = tool_steps([*log, result("c1")]).turns
    assert turn.tool_calls == (ToolCall("c1", "f", "{}", {"extra_content": {"g": 1}}),)
    thought = {"type": "reasoning.text", "text": "I look.", "signature": "s"}
    assert turn.extra == {"reasoning": "I look.", "reasoning_details": [thought], "opaque": "x"}
