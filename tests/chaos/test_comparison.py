"""What is wrong with what a stock client has is found, and called by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.chaos.answer_check import Kind
from tests.chaos.script import TOOL, Script
from tests.chaos.stock_clients.comparison import problems_of
from tests.chaos.stock_clients.driver import Told

SCRIPT = Script("key", tokens=8, gap_ms=10, size=16, reasoning=3, call=4)
WORDS = SCRIPT.words()
WHOLE = {
    "reasoning": "".join(SCRIPT.thoughts()),
    "text": SCRIPT.text(),
    "call_id": SCRIPT.call_id,
    "tool": TOOL,
    "arguments": "".join(SCRIPT.arguments()),
}
NOTHING = dict.fromkeys(WHOLE, "")
TOLD = Told("key", WHOLE, None, [], ended=True, connections=1, errors={}, lasting=None)


def kinds(told: Told) -> list[Kind]:
    return [problem.kind for problem in problems_of(SCRIPT, told)]


def having(**said: Any) -> Told:
    return replace(TOLD, said=WHOLE | said)


def test_the_whole_answer_is_well() -> None:
    assert kinds(TOLD) == []


def test_arguments_may_have_been_parsed() -> None:
    assert kinds(having(arguments=orjson.loads(WHOLE["arguments"]))) == []
    assert kinds(having(arguments={"query": "another"})) == [Kind.WRONG_BYTES]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ([*WORDS[:3], *WORDS[4:]], Kind.GAP),
        (WORDS[:-1], Kind.GAP),
        ([*WORDS[:4], *WORDS[3:]], Kind.DUPLICATE),
        ([*WORDS, WORDS[-1]], Kind.DUPLICATE),
        ([*WORDS[:4], "of something else", *WORDS[5:]], Kind.WRONG_BYTES),
    ],
)
def test_a_wrong_text_is_told_apart(words: list[str], kind: Kind) -> None:
    assert kinds(having(text="".join(words))) == [kind]


@pytest.mark.parametrize("name", ["reasoning", "call_id", "tool", "arguments"])
def test_each_part_is_looked_at(name: str) -> None:
    assert kinds(having(**{name: ""})) == [Kind.GAP]


def test_what_the_client_keeps_itself_is_looked_at() -> None:
    assert kinds(replace(TOLD, whole=WHOLE | {"text": ""})) == [Kind.GAP]


def test_a_broken_connection_gave_the_beginning() -> None:
    broken = NOTHING | {"reasoning": WHOLE["reasoning"], "text": "".join(WORDS[:2])}
    assert kinds(replace(TOLD, broken=[broken])) == []
    twice = broken | {"text": WORDS[0] + WORDS[0]}
    assert kinds(replace(TOLD, broken=[twice])) == [Kind.DUPLICATE]


def test_an_answer_without_its_end_is_unfinished() -> None:
    assert kinds(replace(TOLD, said=NOTHING, ended=False)) == [Kind.UNFINISHED]


def test_an_answer_that_ended_with_an_error_is_lost() -> None:
    told = replace(TOLD, said=NOTHING, ended=False, lasting="attempts_exhausted")
    assert kinds(told) == [Kind.LOST]
