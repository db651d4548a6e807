"""Redacts patterns in text that comes in pieces, and holds back only what may become a match.

A place of the text is undecided while some pattern could match from there up to the end of what
has come: only then could more text change what matches there. Everything before the first
undecided place is final, so the result is the same however the text is cut.

What is undecided is searched again only once it has grown, by a quarter for example, or once its
word has ended. So each character is searched a bounded number of times, however small the pieces
are.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from evenflow.stream_core.filtering.cpu_budget import CpuBudget
from evenflow.stream_core.filtering.pattern import (
    CONTEXT,
    LONGEST_MATCH,
    NOT_IN_TEXT,
    Pattern,
    Patterns,
    PatternTooSlow,
)
from evenflow.stream_core.filtering.port import FilterAction, StopAnswer

# Characters. A block without an end is redacted up to here.
_LONGEST_BLOCK = 16_384
# Undecided text is searched again when it has grown by one part of this many. Short text is
# searched sooner, so that a match is found with the next token.
_GROWTH, _GROWTH_OF_SHORT, _SHORT_MATCH = 4, 8, 64
# A character that no key has.
_WORD_END = re.compile(r"[^A-Za-z0-9_.+/=-]")
# Reading the clock costs as much as a search in short text. One of this many is measured.
_MEASURE_EVERY = 8
_SHORT = 256


class PatternFilter:
    """A `TextFilter` of patterns.

    Args:
        text_so_far: the text that is already sent. Of a match in it only the rest is redacted.
        on_match: called with the name of each pattern that matched.
        promptly: up to this length, undecided text is searched with each new piece. It is for text
            that was shown and should be retracted at once.
        budget: the CPU time of the answer. Once it is spent, `push` returns nothing more. None:
            time is not counted.
    """

    __slots__ = (
        "_action",
        "_block",
        "_budget",
        "_fresh",
        "_inside",
        "_is_in_word",
        "_on_match",
        "_patterns",
        "_promptly",
        "_searches",
        "_sent_end",
        "_text",
        "_undecided",
        "_undecided_start",
    )

    def __init__(
        self,
        patterns: Patterns,
        text_so_far: str = "",
        *,
        action: FilterAction = FilterAction.REDACT,
        on_match: Callable[[str], None] = lambda name: None,
        promptly: int = 0,
        budget: CpuBudget | None = None,
    ) -> None:
        self._patterns = patterns
        self._action = action
        self._on_match = on_match
        self._promptly = promptly
        self._budget = budget or CpuBudget(lambda: 0.0)
        self._text = text_so_far[-LONGEST_MATCH:]
        # The length of the sent part of `_text`, and the start of its undecided part.
        self._sent_end, self._undecided_start = len(self._text), 0
        # Characters that were undecided at the last search, and those that came since.
        self._undecided = self._fresh = 0
        # Whether no word has ended in what was undecided at the last search.
        self._is_in_word = True
        self._searches = 0
        # The pattern of a match that continues, and the characters of its block still to redact.
        self._inside: Pattern | None = None
        self._block = 0

    def push(self, text: str) -> str:
        """See `TextFilter.push`."""
        if NOT_IN_TEXT in text:
            text = text.replace(NOT_IN_TEXT, "\ufffd")
        self._text += text
        self._fresh += len(text)
        undecided = self._undecided
        growth = _GROWTH_OF_SHORT if undecided < _SHORT_MATCH else _GROWTH
        if self._budget.is_spent:
            return ""
        if self._fresh * growth < undecided > self._promptly and not (
            self._is_in_word and _WORD_END.search(text)
        ):
            return ""
        return self._search(last=False)

    def finish(self) -> str:
        """See `TextFilter.finish`. Buffered text is no match, or is replaced."""
        return self._search(last=True)

    def _search(self, *, last: bool) -> str:
        budget, fresh = self._budget, self._fresh
        self._searches += 1
        times = _MEASURE_EVERY if len(self._text) < _SHORT else 1
        is_measured = self._searches % times == 0
        began = budget.cpu_seconds() if is_measured else 0.0
        cleared: list[str] = []
        try:
            self._clear(cleared, last=last)
        except PatternTooSlow:
            if last:
                raise
            budget.exhaust()
        except StopAnswer:
            raise StopAnswer("".join(cleared)) from None
        self._forget()
        self._fresh = 0
        self._undecided = 0 if self._inside else len(self._text) - self._undecided_start
        self._is_in_word = _WORD_END.search(self._text, self._undecided_start) is None
        budget.charge(fresh, times * (budget.cpu_seconds() - began) if is_measured else 0.0)
        return "".join(cleared)

    def _clear(self, cleared: list[str], *, last: bool) -> None:
        patterns, text, seconds = self._patterns, self._text, self._budget.search_seconds
        if not last and self._inside is None:
            unmatched = patterns.any_of_all.unmatched_until(text, self._undecided_start, seconds)
            if unmatched is not None:  # as nearly always
                cleared.append(text[self._sent_end : unmatched])
                self._go_to(unmatched)
                return
        until = -1
        while self._inside is None or self._skip(self._inside, cleared, last=last):
            if until < self._undecided_start:
                until = len(text)
                if not last:
                    until = patterns.any_of_all.undecided_from(text, self._undecided_start, seconds)
            match = patterns.first(text, self._undecided_start, until, seconds)
            if match is None:
                cleared.append(text[self._sent_end : until])
                self._go_to(until)
                return
            cleared.append(text[self._sent_end : match.first])
            if match.end > self._sent_end:
                self._on_match(match.pattern.name)
                if self._action is FilterAction.STOP:
                    raise StopAnswer
                self._inside, self._block = match.pattern, _LONGEST_BLOCK
            self._go_to(match.end)

    def _skip(self, pattern: Pattern, cleared: list[str], *, last: bool) -> bool:
        """Skip the rest of a match. Returns whether its end was found.

        The replacement is sent then: a node that adopts this answer finds either
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
        pieces, seconds = self._patterns.rests[pattern.name], self._budget.search_seconds
        while last or not pieces.is_undecided_at(self._text, self._undecided_start, seconds):
            end = pieces.end_at(self._text, self._undecided_start, seconds)
            if end is None:
                return True
            self._go_to(end)
        return False

    def _skip_block(self, pattern: Pattern, *, last: bool) -> bool:
        mark, seconds = self._patterns.rests[pattern.name], self._budget.search_seconds
        text, first = self._text, self._undecided_start
        until = len(text) if last else mark.undecided_from(text, first, seconds)
        end = mark.search(text, first, seconds)
        if end is not None and end[0] < min(until, first + self._block):
            self._go_to(end[1])
            return True
        self._go_to(min(until, first + self._block))
        self._block -= self._undecided_start - first
        return last or not self._block

    def _go_to(self, position: int) -> None:
        self._undecided_start = position
        self._sent_end = max(self._sent_end, position)

    def _forget(self) -> None:
        """Drop sent text, except the last characters that patterns may look at."""
        dropped = self._undecided_start - CONTEXT
        if dropped > 0:
            self._text = self._text[dropped:]
            self._undecided_start -= dropped
            self._sent_end -= dropped
