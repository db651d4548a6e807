"""Redacts patterns in text that comes in pieces, and holds back only what may become a match.

A place of the text is undecided while some pattern could match from there up to the end of what
has come: only then could more text change what matches there. Everything before the first
undecided place is final, so the result is the same however the text is cut.
"""

from __future__ import annotations

from collections.abc import Callable

from evenflow.stream_core.filtering.pattern import LONGEST_MATCH, NOT_IN_TEXT, Pattern, Patterns
from evenflow.stream_core.filtering.port import FilterAction, StopAnswer

# Characters. A block whose end doesn't come is redacted up to here.
_LONGEST_BLOCK = 16_384


class PatternFilter:
    """A `TextFilter` of patterns.

    Args:
        before: the text that stands. A match may begin in it; then its rest is redacted.
        on_match: called with the name of each pattern that matched.
    """

    __slots__ = (
        "_action",
        "_block",
        "_from",
        "_inside",
        "_on_match",
        "_patterns",
        "_shown",
        "_text",
    )

    def __init__(
        self,
        patterns: Patterns,
        before: str = "",
        *,
        action: FilterAction = FilterAction.REDACT,
        on_match: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._patterns = patterns
        self._action = action
        self._on_match = on_match
        self._text = before[-LONGEST_MATCH:]
        # Characters of `_text` that are out, and those before which nothing is undecided.
        self._shown, self._from = len(self._text), 0
        # The pattern whose match goes on, and how much of its block is still redacted.
        self._inside: Pattern | None = None
        self._block = 0

    def push(self, text: str) -> str:
        """See `TextFilter.push`."""
        if NOT_IN_TEXT in text:
            text = text.replace(NOT_IN_TEXT, "\ufffd")
        self._text += text
        return self._clear(last=False)

    def finish(self) -> str:
        """See `TextFilter.finish`. What was held back is no match, or is replaced."""
        return self._clear(last=True)

    def _clear(self, *, last: bool) -> str:
        cleared: list[str] = []
        while self._inside is None or self._skip(self._inside, cleared, last=last):
            text = self._text
            until = len(text) if last else self._patterns.any.undecided_from(text, self._from)
            found = self._patterns.first(text, self._from, until)
            if found is None:
                cleared.append(text[self._shown : until])
                self._go_to(until)
                break
            cleared.append(text[self._shown : found.first])
            if found.end > self._shown:
                self._on_match(found.pattern.name)
                if self._action is FilterAction.STOP:
                    raise StopAnswer("".join(cleared))
                self._inside, self._block = found.pattern, _LONGEST_BLOCK
            self._go_to(found.end)
        self._forget()
        return "".join(cleared)

    def _skip(self, pattern: Pattern, cleared: list[str], *, last: bool) -> bool:
        """Skip the rest of a match. Returns whether its end was seen.

        The replacement comes then: whoever goes on with this answer at another task finds either
        all of the match replaced, or nothing of it.
        """
        if pattern.name in self._patterns.rests:
            skip = self._skip_block if pattern.until else self._skip_pieces
            if not skip(pattern, last=last):
                return False
        self._inside = None
        cleared.append(pattern.replacement)
        return True

    def _skip_pieces(self, pattern: Pattern, *, last: bool) -> bool:
        piece = self._patterns.rests[pattern.name]
        while last or not piece.is_undecided_at(self._text, self._from):
            end = piece.end_at(self._text, self._from)
            if end is None:
                return True
            self._go_to(end)
        return False

    def _skip_block(self, pattern: Pattern, *, last: bool) -> bool:
        mark, text, first = self._patterns.rests[pattern.name], self._text, self._from
        until = len(text) if last else mark.undecided_from(text, first)
        end = mark.search(text, first)
        if end is not None and end[0] < min(until, first + self._block):
            self._go_to(end[1])
            return True
        self._go_to(min(until, first + self._block))
        self._block -= self._from - first
        return last or not self._block

    def _go_to(self, position: int) -> None:
        self._from = position
        self._shown = max(self._shown, position)

    def _forget(self) -> None:
        """Keep one character before what is undecided: patterns may look at it."""
        done = self._from - 1
        if done > 0:
            self._text = self._text[done:]
            self._from -= done
            self._shown -= done
