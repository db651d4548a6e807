"""What a conversation's system turns say, for models that take it apart from what is said in turn."""

from __future__ import annotations

from collections.abc import Iterable

from stream_core.conversation import Turn


def system_texts(turns: Iterable[Turn]) -> list[str]:
    """Their texts in order, without blank ones."""
    return [turn.text for turn in turns if turn.role == "system" and turn.text.strip()]
