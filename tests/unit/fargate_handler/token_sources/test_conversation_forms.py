from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.token_sources.conversation_forms import (
    alternating_turns,
    system_texts,
)
from evenflow.stream_core.session.conversation import ToolCall, Turn

TURNS = st.lists(
    st.builds(Turn, st.sampled_from(["user", "assistant"]), st.sampled_from(["", " \n", "a", "b"]))
)


def turns(*said: str) -> list[Turn]:
    """`u:text` and `a:text`."""
    roles = {"u": "user", "a": "assistant"}
    return [Turn(roles[one[0]], one[2:]) for one in said]


def told(said: list[Turn]) -> list[tuple[str, list[str]]]:
    """Roles and their texts."""
    return [(role, [turn.text for turn in group]) for role, group in alternating_turns(said)]


@pytest.mark.parametrize(
    ("given_turns", "expected"),
    [
        (["u:x"], [("user", ["x"])]),
        (["u:x", "a:y", "u:z"], [("user", ["x"]), ("assistant", ["y"]), ("user", ["z"])]),
        (["u:x", "u:z"], [("user", ["x", "z"])]),
        (
            ["u:x", "a:y", "a:y2", "u:z"],
            [("user", ["x"]), ("assistant", ["y", "y2"]), ("user", ["z"])],
        ),
        (["a:y", "u:x"], [("user", ["x"])]),
        (["u:x", "a: \n", "u:z"], [("user", ["x", "z"])]),
        (["u: ", "a:y", "u:z"], [("user", ["z"])]),
        (["u:x", "a:y", "u: "], [("user", ["x"]), ("assistant", ["y"]), ("user", [" "])]),
    ],
)
def test_what_the_model_is_told(
    given_turns: list[str], expected: list[tuple[str, list[str]]]
) -> None:
    assert told(turns(*given_turns)) == expected


@given(TURNS, st.sampled_from(["", "x"]))
def test_roles_alternate_from_user_to_user_and_nothing_said_between_is_lost(
    before: list[Turn], question: str
) -> None:
    heard = told([*before, Turn("user", question)])
    roles = [role for role, _ in heard]
    assert roles == ["user" if place % 2 == 0 else "assistant" for place in range(len(roles))]
    assert roles[-1] == "user"
    assert heard[-1][1][-1] == question
    texts = [text for _, group in heard for text in group][:-1]
    first = next(
        (place for place, turn in enumerate(before) if turn.role == "user" and turn.text.strip()),
        len(before),
    )
    assert texts == [turn.text for turn in before[first:] if turn.text.strip()]


def test_system_turns_stand_apart() -> None:
    said = [Turn("system", "a"), *turns("u:x"), Turn("system", " "), Turn("system", "b")]
    assert told(said) == [("user", ["x"])]
    assert system_texts(said) == ["a", "b"]
    assert alternating_turns([Turn("system", "a")]) == []


def test_calls_and_what_they_gave_are_never_blank() -> None:
    called = Turn("assistant", "", (ToolCall("c1", "add", "{}"), ToolCall("c2", "add", "{}")))
    gave = [Turn("tool", "", tool_call_id="c1"), Turn("tool", "2", tool_call_id="c2")]
    said = [*turns("u:x"), called, *gave, *turns("u:y")]
    assert alternating_turns(said) == [
        ("user", said[:1]),
        ("assistant", [called]),
        ("tool", gave),
        ("user", said[4:]),
    ]
