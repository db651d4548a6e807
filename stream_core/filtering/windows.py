"""Windows of text for a filter that judges sentences: not each word, and not the whole answer."""

from __future__ import annotations

import re

LONGEST_WINDOW = 1_000
"""Characters."""
LONGEST_OVERLAP = 150
"""Characters. Text up to this length is within one window, wherever the windows end."""
_ENOUGH = 200
_SENTENCE_END = re.compile(r"[.!?…]['\")\]]*\s|\n")
_SPACE = re.compile(r"\s")


def window_of(text: str, *, last: bool) -> int:
    """The length of the next window at the beginning of `text`. 0: wait for more.

    A window ends with a sentence once there is enough of it, or at the longest.

    Args:
        last: nothing comes behind it.
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, LONGEST_WINDOW)]
    if ends and ends[-1] >= _ENOUGH:
        return ends[-1]
    if len(text) >= LONGEST_WINDOW:
        spaces = [match.end() for match in _SPACE.finditer(text, _ENOUGH, LONGEST_WINDOW)]
        return spaces[-1] if spaces else LONGEST_WINDOW
    return len(text) if last else 0


def overlap_of(text: str, judged: str) -> int:
    """The number of last characters that are judged again with the next window.

    They begin with a word, and the judge has replaced none of them.

    Args:
        text: what was judged.
        judged: the text that replaces it.
    """
    max_length = min(LONGEST_OVERLAP, len(text), len(judged))
    same = next((at for at in range(max_length) if text[-1 - at] != judged[-1 - at]), max_length)
    if same == len(text):
        return same
    space = _SPACE.search(text, len(text) - same)
    return same if space is None else len(text) - space.end()
