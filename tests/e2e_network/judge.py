"""What is wrong with what a reader has seen."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from tests.e2e_network.browser import State

_TRANSPORT = re.compile("WebSocket|event stream|poll|transport", re.IGNORECASE)


@dataclass(frozen=True)
class Log:
    """An answer as the server has it, read back from its beginning.

    Args:
        status: `completed` of one that is whole.
    """

    status: str
    text: str


def faults(state: State, log: Log, *, model_text: str, model_calls: int) -> list[str]:
    """What is wrong, in words; nothing is if that is empty.

    Args:
        model_text: all that the model has to say.
        model_calls: how often it was called for this question.
    """
    found = []
    if state.problem is not None:
        found.append(f"given up: {state.problem[:120]}")
    elif not state.is_over:
        found.append("no end")
    if len(state.texts) != 1:
        found.append(f"{len(state.texts)} answers on the screen")
    found += _differences(" ".join(state.texts), log.text, "on the screen")
    if log.status != "completed":
        found.append(f"the server's log is {log.status}")
    found += _differences(log.text, model_text, "in the log")
    if model_calls != 1:
        found.append(f"{model_calls} calls of the model")
    if state.taken_back:
        before, text = state.taken_back[0]
        found.append(f"taken back on the screen: {before[-40:]!r}, then {text[-40:]!r}")
    if notice := next(filter(_TRANSPORT.search, state.notices), None):
        found.append(f"the reader is told of transports: {notice[:80]!r}")
    return found


def _differences(text: str, wanted: str, where: str) -> list[str]:
    """No word of the texts is in one of them twice."""
    words, wanted_words = text.split(), wanted.split()
    if words == wanted_words:
        return []
    missing = [word for word in wanted_words if word not in set(words)]
    twice = [word for word, count in Counter(words).items() if count > 1]
    foreign = [word for word in words if word not in set(wanted_words)]
    told = [
        f"{len(of)} {what}, first {of[0]}"
        for of, what in ((missing, "missing"), (twice, "twice"), (foreign, "of another answer"))
        if of
    ]
    return [f"{where}: {'; '.join(told) or 'in another order'} (of {len(wanted_words)} words)"]


def back_after(state: State, path_up_at: float) -> float | None:
    """Seconds from a moment to the next text on the screen; None where none came."""
    return next((at - path_up_at for at, _ in state.changes if at >= path_up_at), None)


def longest_silence(state: State) -> float:
    """The most seconds between two changes of the text."""
    times = [at for at, _ in state.changes]
    return max((after - before for before, after in pairwise(times)), default=0.0)
