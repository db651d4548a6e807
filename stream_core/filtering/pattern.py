"""Patterns of what should not be in an answer, and several of them as one matcher."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import regex

LONGEST_MATCH = 2_048
"""Characters. A pattern that may match more is refused."""
CONTEXT = 2
"""Characters before a match that a pattern may look at."""
REDACTED = "[redacted]"
NOT_IN_TEXT = "\ufdd0"
"""A noncharacter, which no text has. Expecting it, a pattern matches only in part, and only up to
the end of the text. So it finds the begin of a text that may become a match with more text.
"""
# A lazy repetition (group `lazy`), or what only looks like one: escapes, classes, comments.
_LAZY = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?#[^)]*\)|(?P<lazy>(?:[*+?]|\{\d*,?\d*\})\?)", re.DOTALL
)
# Pieces after a match are searched this many at a time.
_PIECES = 256
# Python's own parser of patterns. That of `regex` is not public.
_parser: Any = importlib.import_module("re._parser")
_LOOK_AROUND = ("ASSERT", "ASSERT_NOT")
_WORD_BOUNDARIES = ("AT_BOUNDARY", "AT_NON_BOUNDARY")


class PatternUnsupported(ValueError):
    """A pattern can't be used on a stream, for the reason in the message."""


class PatternTooSlow(Exception):
    """A pattern took too long on a text."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text that should not be in an answer.

    Args:
        expression: of at most `LONGEST_MATCH` characters. It sees at most `CONTEXT` characters
            before what it matches.
        more: the expression of a further piece of a match. Any number of pieces is redacted.
        until: the end of a block that begins with the match. All up to there is redacted.
        valid_length: returns the length of the valid beginning of a match, by its check digits for
            example. 0: the match is not valid.
    """

    name: str
    expression: str
    replacement: str = REDACTED
    more: str = ""
    until: str = ""
    valid_length: Callable[[str], int] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The place of a pattern's match."""

    pattern: Pattern
    first: int
    end: int


class Expression:
    """A compiled expression, which also finds the beginning of an incomplete match.

    A search that takes more than its `seconds` raises `PatternTooSlow`.
    """

    __slots__ = ("_beginning", "_whole")

    def __init__(self, expression: str) -> None:
        expression = _LAZY.sub(_with_stop, expression)
        self._whole = regex.compile(expression)
        self._beginning = regex.compile(f"(?:{expression}){NOT_IN_TEXT}")

    @property
    def groups(self) -> int:
        """The number of its groups."""
        return int(self._whole.groups)

    def unmatched_until(self, text: str, position: int, seconds: float) -> int | None:
        """The start of a possible incomplete match, or the text's length. None: one is complete.

        For text without a match it returns the same as `undecided_from` and `search` together, in
        half the time.
        """
        match = _in_time(self._whole.search, text, position, seconds, partial=True)
        if match is None:
            return len(text)
        return int(match.start()) if match.partial else None

    def undecided_from(self, text: str, position: int, seconds: float) -> int:
        """The place from which more text may change the matches. The length of the text: none."""
        match = _in_time(self._beginning.search, text, position, seconds, partial=True)
        return len(text) if match is None else int(match.start())

    def is_undecided_at(self, text: str, position: int, seconds: float) -> bool:
        """Whether more text may change what matches at this place."""
        match = _in_time(self._beginning.match, text, position, seconds, partial=True)
        return match is not None

    def search(self, text: str, position: int, seconds: float) -> tuple[int, int] | None:
        """The first match from `position` on, as its range."""
        match = _in_time(self._whole.search, text, position, seconds)
        return None if match is None else match.span()

    def group_at(self, text: str, position: int, seconds: float) -> int | None:
        """The outermost group of the match at `position`. None if there is no match."""
        match = _in_time(self._whole.match, text, position, seconds)
        return None if match is None else match.lastindex

    def end_at(self, text: str, position: int, seconds: float) -> int | None:
        """The end of the match that begins at `position`. None if there is none."""
        match = _in_time(self._whole.match, text, position, seconds)
        return None if match is None else int(match.end())


class Patterns:
    """Several patterns. Of two that match at the same place the first counts."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.any_of_all = Expression("|".join(f"(?:{pattern.expression})" for pattern in patterns))
        self._expressions = [(pattern, Expression(pattern.expression)) for pattern in patterns]
        # Here each pattern is a group, so that a match has its number. `any_of_all` has no groups,
        # since searches with groups are slower.
        self._which = Expression("|".join(f"({pattern.expression})" for pattern in patterns))
        self._number_of_group = _numbers_of_groups(
            self._which, [expression for _, expression in self._expressions]
        )
        self.rests = {pattern.name: _rest_of(pattern) for pattern in patterns if _has_rest(pattern)}
        self.names = frozenset(pattern.name for pattern in patterns)

    def first(self, text: str, position: int, first_end: int, seconds: float) -> Found | None:
        """The first match that begins from `position` on and before `first_end`."""
        while (span := self.any_of_all.search(text, position, seconds)) is not None and span[
            0
        ] < first_end:
            match = self._match_at(text, span[0], seconds)
            if match is not None:
                return match
            position = span[0] + 1
        return None

    def _match_at(self, text: str, first: int, seconds: float) -> Found | None:
        number = self._number_of_group.get(self._which.group_at(text, first, seconds), 0)
        for pattern, expression in self._expressions[number:]:
            end = expression.end_at(text, first, seconds)
            if end is None:
                continue
            valid_length = pattern.valid_length
            length = end - first if valid_length is None else valid_length(text[first:end])
            if length:
                return Found(pattern, first, first + length)
        return None


def _with_stop(match: re.Match[str]) -> str:
    """A lazy repetition, followed by a condition that is always met.

    Without it, `regex` looks for the text behind the repetition past the characters that it
    repeats, and treats the end of the text as the middle of a match.
    """
    return match[0] if match["lazy"] is None else f"{match[0]}(?<!{NOT_IN_TEXT})"


def _numbers_of_groups(
    joined: Expression, expressions: Sequence[Expression]
) -> dict[int | None, int]:
    """The number of each expression, by its group in the expression that joins all of them.

    Empty if several expressions have groups of the same name: then there are fewer groups.
    """
    sizes = [1 + expression.groups for expression in expressions]
    if joined.groups != sum(sizes):
        return {}
    return {group: number for number, group in enumerate(accumulate(sizes[:-1], initial=1))}


def _has_rest(pattern: Pattern) -> bool:
    return bool(pattern.until or pattern.more)


def _rest_of(pattern: Pattern) -> Expression:
    return Expression(pattern.until or f"(?:{pattern.more}){{1,{_PIECES}}}+")


def check_expression(expression: str) -> None:
    """Check that an expression can be used on a stream.

    Raises:
        PatternUnsupported: it can't be read, may match nothing or too much, or looks further than
            one character around its match.
    """
    try:
        parsed = _parser.parse(expression)
        regex.compile(expression)
    except (re.error, regex.error, RecursionError) as error:
        raise PatternUnsupported(f"can't be read: {error}") from None
    shortest, longest = parsed.getwidth()
    if not shortest:
        raise PatternUnsupported("matches the empty text")
    if longest > LONGEST_MATCH:
        raise PatternUnsupported(
            f"may match more than {LONGEST_MATCH} characters: bound each repetition, {{1,64}} "
            "instead of +"
        )
    for operation, argument in _operations(parsed):
        name = str(operation)
        looks_far = name in _LOOK_AROUND and argument[1].getwidth()[1] > 1
        if looks_far or (name == "AT" and str(argument) not in _WORD_BOUNDARIES):
            raise PatternUnsupported(
                "looks around its match or for the text's end; \\b and one character, as in "
                "(?<![a-z]), are allowed"
            )
        if name.startswith("GROUPREF"):
            raise PatternUnsupported("refers to a group of its own")


def longest_match(expression: str) -> int:
    """The most characters that an expression matches."""
    return int(_parser.parse(expression).getwidth()[1])


def _operations(parsed: Any) -> Iterator[tuple[Any, Any]]:
    """All operations of a parsed expression, with those inside of others."""
    for operation, argument in parsed:
        yield operation, argument
        pending_nodes = [argument]
        while pending_nodes:
            inner = pending_nodes.pop()
            if isinstance(inner, _parser.SubPattern):
                yield from _operations(inner)
            elif isinstance(inner, list | tuple):
                pending_nodes.extend(inner)


def _in_time(
    search: Callable[..., Any], text: str, position: int, seconds: float, **options: Any
) -> Any:
    try:
        return search(text, position, timeout=seconds, **options)
    except TimeoutError:
        raise PatternTooSlow(f"a pattern took more than {seconds:g} s") from None
