"""What a client has of an answer, compared with what the model said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from tests.chaos.answer_check import Kind, Problem
from tests.chaos.script import TOOL, Script
from tests.chaos.stock_clients.driver import Told

_FOUND_AGAIN = 12
_CONTEXT = 24


def problems_of(script: Script, told: Told) -> list[Problem]:
    """What is wrong with what came of a question.

    What is whole must be what the model said. What a broken connection gave must be the beginning
    of that.
    """
    if told.lasting is not None:
        return [Problem(Kind.LOST, f"it ended with {told.lasting}")]
    due = _due(script)
    problems = [problem for said in told.broken for problem in _of_beginning(due, said)]
    if told.ended:
        held = [told.said] if told.whole is None else [told.said, told.whole]
        return [*problems, *(problem for said in held for problem in _of_whole(due, said))]
    problems += _of_beginning(due, told.said)
    return [*problems, Problem(Kind.UNFINISHED, f"no end; it has {_lengths(told.said)}")]


def difference(name: str, due: str, came: str) -> Problem | None:
    """The first place at which `came` is not `due`; None if there is none.

    It is a gap or a duplicate where what stands there belongs to a later or an earlier place.
    """
    if due == came:
        return None
    pairs = zip(due, came, strict=False)
    place = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(due), len(came)))
    found = came[place : place + _FOUND_AGAIN]
    if not found or due.find(found, place + 1) >= 0:
        kind = Kind.GAP
    else:
        kind = Kind.DUPLICATE if found in due[: place + len(found) - 1] else Kind.WRONG_BYTES
    near = slice(max(0, place - _CONTEXT), place + _CONTEXT)
    return Problem(kind, f"{name}, character {place}: {came[near]!r} came, {due[near]!r} was due")


def _due(script: Script) -> dict[str, str]:
    return {
        "reasoning": "".join(script.thoughts()),
        "text": script.text(),
        "call_id": script.call_id if script.call else "",
        "tool": TOOL if script.call else "",
        "arguments": "".join(script.arguments()),
    }


def _of_whole(due: dict[str, str], said: dict[str, Any]) -> Iterator[Problem]:
    for name, whole in due.items():
        came = said[name]
        if not isinstance(came, str):
            whole, came = _sorted(orjson.loads(whole or b"null")), _sorted(came)  # noqa: PLW2901
        if problem := difference(name, whole, came):
            yield problem


def _of_beginning(due: dict[str, str], said: dict[str, Any]) -> Iterator[Problem]:
    for name in ("reasoning", "text"):
        if problem := difference(name, due[name][: len(said[name])], said[name]):
            yield problem


def _sorted(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _lengths(said: dict[str, Any]) -> str:
    return ", ".join(f"{len(str(value))} of {name}" for name, value in said.items())
