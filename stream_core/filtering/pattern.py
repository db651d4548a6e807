"""Patterns of what should not be in an answer, and several of them as one matcher."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import regex

LONGEST_MATCH = 2_048
"""Characters. A pattern that may match more is refused."""
REDACTED = "[redacted]"
NOT_IN_TEXT = "\ufdd0"
"""A noncharacter, which no text has. Expecting it, a pattern matches only in part, and only up to
the end of the text: so it tells where text begins that more text may make a match.
"""
_MOST_SECONDS = 1.0
# Python's own parser of patterns. `regex` has none that can be asked.
_parser: Any = importlib.import_module("re._parser")
_LOOK_AROUND = ("ASSERT", "ASSERT_NOT")
_WORD_BOUNDARIES = ("AT_BOUNDARY", "AT_NON_BOUNDARY")


class PatternRefused(ValueError):
    """A pattern can't be used on a stream. The message says why."""


class TooSlow(Exception):
    """A pattern took too long on a text."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What should not be in an answer.

    Args:
        expression: of at most `LONGEST_MATCH` characters. It sees at most one character before
            and behind what it matches.
        more: one more piece of a match. Pieces are redacted as they come, however many.
        until: where a block ends that begins with the match. All up to there is redacted.
        is_valid: whether a match is one, by its check digits for example.
    """

    name: str
    expression: str
    replacement: str = REDACTED
    more: str = ""
    until: str = ""
    is_valid: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Where a pattern matches."""

    pattern: Pattern
    first: int
    end: int


class Expression:
    """A pattern's expression, and where a match may begin that the text has not the end of."""

    __slots__ = ("_beginning", "_whole")

    def __init__(self, expression: str) -> None:
        self._whole = regex.compile(expression)
        self._beginning = regex.compile(f"(?:{expression}){NOT_IN_TEXT}")

    def undecided_from(self, text: str, position: int) -> int:
        """From where on more text may change what matches. The length of the text: nowhere."""
        found = _in_time(self._beginning.search, text, position, partial=True)
        return len(text) if found is None else int(found.start())

    def is_undecided_at(self, text: str, position: int) -> bool:
        """Whether more text may change what matches at this place."""
        found = _in_time(self._beginning.match, text, position, partial=True)
        return found is not None

    def search(self, text: str, position: int) -> tuple[int, int] | None:
        """The first match from `position` on, as its range."""
        found = _in_time(self._whole.search, text, position)
        return None if found is None else found.span()

    def end_at(self, text: str, position: int) -> int | None:
        """The end of the match that begins at `position`. None if there is none."""
        found = _in_time(self._whole.match, text, position)
        return None if found is None else int(found.end())


class Patterns:
    """Several patterns. Of two that match at the same place the first counts."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.any = Expression("|".join(f"(?:{pattern.expression})" for pattern in patterns))
        self._each = [(pattern, Expression(pattern.expression)) for pattern in patterns]
        self.rests = {
            pattern.name: Expression(pattern.until or pattern.more)
            for pattern in patterns
            if pattern.until or pattern.more
        }
        self.names = frozenset(pattern.name for pattern in patterns)

    def first(self, text: str, position: int, before: int) -> Found | None:
        """The first match that begins from `position` on and before `before`."""
        while (span := self.any.search(text, position)) is not None and span[0] < before:
            for pattern, expression in self._each:
                end = expression.end_at(text, span[0])
                if end is not None and (
                    pattern.is_valid is None or pattern.is_valid(text[span[0] : end])
                ):
                    return Found(pattern, span[0], end)
            position = span[0] + 1
        return None


def check_expression(expression: str) -> None:
    """Check that an expression can be used on a stream.

    Raises:
        PatternRefused: it can't be read, may match nothing or too much, or looks further than its
            match.
    """
    try:
        parsed = _parser.parse(expression)
        regex.compile(expression)
    except (re.error, regex.error, RecursionError) as error:
        raise PatternRefused(f"can't be read: {error}") from None
    shortest, longest = parsed.getwidth()
    if not shortest:
        raise PatternRefused("matches the empty text")
    if longest > LONGEST_MATCH:
        raise PatternRefused(
            f"may match more than {LONGEST_MATCH} characters: bound each repetition, {{1,64}} "
            "instead of +"
        )
    for operation, argument in _operations(parsed):
        name = str(operation)
        if name in _LOOK_AROUND or (name == "AT" and str(argument) not in _WORD_BOUNDARIES):
            raise PatternRefused("looks around its match or for the text's end; \\b is allowed")
        if name.startswith("GROUPREF"):
            raise PatternRefused("refers to a group of its own")


def longest_match(expression: str) -> int:
    """The most characters that an expression matches."""
    return int(_parser.parse(expression).getwidth()[1])


def _operations(parsed: Any) -> Iterator[tuple[Any, Any]]:
    """All operations of a parsed expression, with those inside of others."""
    for operation, argument in parsed:
        yield operation, argument
        waiting = [argument]
        while waiting:
            inner = waiting.pop()
            if isinstance(inner, _parser.SubPattern):
                yield from _operations(inner)
            elif isinstance(inner, list | tuple):
                waiting.extend(inner)


def _in_time(search: Callable[..., Any], text: str, position: int, **options: Any) -> Any:
    try:
        return search(text, position, timeout=_MOST_SECONDS, **options)
    except TimeoutError:
        raise TooSlow(f"a pattern took more than {_MOST_SECONDS:g} s") from None
