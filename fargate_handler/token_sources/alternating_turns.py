"""A conversation as models insist on it: user and assistant in turn, the user first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile, groupby

from stream_core.conversation import Turn

# As they came, where they are no calls of functions.
_CALLS = frozenset({"tool_calls", "function_call"})


def alternating_turns(turns: Sequence[Turn]) -> list[tuple[str, list[Turn]]]:
    """Roles and their turns, the last one the message to answer; system turns stand apart (`system_texts`).

    Two messages of one role follow each other after an answer that was cancelled before its first token. A blank turn
    is left out: it would have every later message refused. The last one stays, whatever it is. What tools gave, the role
    `tool`, stands between the assistant that called and whoever speaks next.
    """
    talk = [turn for turn in turns if turn.role != "system"]
    said = [turn for turn in talk[:-1] if _says_something(turn)] + talk[-1:]
    by_role = groupby(dropwhile(lambda turn: turn.role != "user", said), key=lambda turn: turn.role)
    return [(role, list(group)) for role, group in by_role]


def _says_something(turn: Turn) -> bool:
    called = turn.tool_calls or not _CALLS.isdisjoint(turn.extra)
    return bool(turn.text.strip() or turn.parts or called or turn.role in ("tool", "function"))
