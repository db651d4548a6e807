"""The lines of answers in the nodes' logs: they must add up to what clients asked and models gave.

It shares no code with the server.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.chaos.window import Window

_LOST_WITH_A_TASK = 2
"""Lines that may be missing of a fault that kills: a task takes with it what it had not written in
the milliseconds since the store had taken the end.
"""

Lines = Mapping[str, list[Mapping[str, Any]]]
"""By response."""


def read_lines(folder: Path) -> Lines:
    """The lines of all answers, of all processes of a run."""
    found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for log in sorted(folder.glob("node-*.log")):
        for line in _objects(log.read_text(errors="replace")):
            if line.get("event") == "answer":
                found[line["response_id"]].append(line)
    return found


def check_lines(window: Window, lines: Lines, tokens: Mapping[str, int], *, kills: bool) -> None:
    """Check that each answer of a window has one line, with the model's own count of tokens.

    Args:
        tokens: what the model told of each call that it ended, by `<response>:<epoch>:<attempt>`.
        kills: whether the window's fault kills a task.
    """
    own = {response_id: lines.get(response_id, []) for response_id in window.response_ids}
    window.answer_lines = sum(map(len, own.values()))
    missing = [response_id for response_id, of_answer in own.items() if not of_answer]
    if missing and kills and len(missing) <= _LOST_WITH_A_TASK:
        window.remarks.append(f"{len(missing)} answers without a line: it went with its task")
    elif missing:
        window.misses.append(f"{len(missing)} answers have no line in any log: {missing[:5]}")
    twice = [response_id for response_id, of_answer in own.items() if len(of_answer) > 1]
    if twice:
        window.misses.append(f"{len(twice)} answers have several lines: {twice[:5]}")
    wrong = list(_wrong_counts((line for of_answer in own.values() for line in of_answer), tokens))
    if wrong:
        window.misses.append(f"{len(wrong)} lines have other tokens than the model: {wrong[:5]}")


def _wrong_counts(lines: Iterable[Mapping[str, Any]], tokens: Mapping[str, int]) -> Iterator[str]:
    for line in lines:
        if line["state"] == "completed":
            call = f"{line['response_id']}:{line['epoch']}:{line['attempt']}"
            counted = line["output_tokens"], line["tokens_counted_by"]
            if counted != (tokens.get(call), "model"):
                yield f"{call}: {counted}, the model told {tokens.get(call)}"


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a log. What a killed process wrote last may have no end."""
    for line in text.splitlines(keepends=True):
        if line.startswith("{") and line.endswith("}\n"):
            yield json.loads(line)
