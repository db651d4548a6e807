"""The words and signs of an expression, and what all grammars share: paths, placeholders, complaints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from tests.dynamodb_emulator.expressions.paths import Path
from tests.integration.dynamodb_request_rules import RESERVED_WORDS

Names = tuple[tuple[str, str], ...]
"""ExpressionAttributeNames, hashable."""

_TOKEN = re.compile(
    r"(?P<WORD>[A-Za-z_][A-Za-z0-9_]*)|(?P<NAME>#[A-Za-z0-9_]+)|(?P<VALUE>:[A-Za-z0-9_]+)"
    r"|(?P<INDEX>\[\s*[0-9]+\s*\])|(?P<SIGN><=|>=|<>|[=<>+\-(),.])"
)
_SPACE = re.compile(r"[ \t\r\n]*")


class ExpressionRefused(Exception):
    """An expression that is no expression, or that does not fit its names and values; says what is wrong."""


class Kind(Enum):
    """What a token is."""

    WORD = auto()
    NAME = auto()
    VALUE = auto()
    INDEX = auto()
    SIGN = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """One of them, and where it begins."""

    kind: Kind
    text: str
    start: int


class Parser:
    """Reads an expression from its first token to its last; a grammar is a subclass.

    Args:
        names: what the names that begin with `#` stand for.
    """

    def __init__(self, expression: str, names: Names) -> None:
        self.names_used: set[str] = set()
        self.values_used: set[str] = set()
        self._expression = expression
        self._names = dict(names)
        self._tokens = list(_tokens(expression))
        self._next = 0

    # -- tokens --------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        """The next one."""
        return self._tokens[self._next]

    @property
    def calls_function(self) -> bool:
        """Whether a function's name and its parenthesis come next."""
        return self.token.kind is Kind.WORD and self._tokens[self._next + 1].text == "("

    def take(self) -> str:
        """Go past the next token."""
        token = self.token
        self._next += 1
        return token.text

    def take_if(self, text: str) -> bool:
        """Go past the next token if it is this sign, or this word in any case."""
        found = self.token.kind in {Kind.SIGN, Kind.WORD} and self.token.text.upper() == text
        if found:
            self._next += 1
        return found

    def expect(self, text: str) -> None:
        """Go past this sign or word, which must come next."""
        if not self.take_if(text):
            raise self.complaint()

    def expect_end(self) -> None:
        """Nothing may be left."""
        if self.token.kind is not Kind.END:
            raise self.complaint()

    def complaint(self) -> ExpressionRefused:
        """The next token should not be here."""
        near = self._expression[max(0, self.token.start - 10) : self.token.start + 10].strip()
        return ExpressionRefused(f'Syntax error; token: "{self.token.text or "<EOF>"}", near: "{near}"')

    # -- what all have in common ---------------------------------------------------------------------------------

    def value(self) -> str:
        """The name of a value."""
        if self.token.kind is not Kind.VALUE:
            raise self.complaint()
        self.values_used.add(self.token.text)
        return self.take()

    def path(self) -> Path:
        """A document path."""
        parts: list[str | int] = [self._name()]
        while True:
            if self.token.kind is Kind.INDEX:
                parts.append(int(self.take().strip("[] \t\r\n")))
            elif self.take_if("."):
                parts.append(self._name())
            else:
                return Path(tuple(parts))

    def _name(self) -> str:
        token = self.token
        if token.kind is Kind.NAME:
            if token.text not in self._names:
                raise ExpressionRefused(
                    "An expression attribute name used in the document path is not defined; "
                    f"attribute name: {token.text}"
                )
            self.names_used.add(token.text)
            return self._names[self.take()]
        if token.kind is not Kind.WORD:
            raise self.complaint()
        if token.text.upper() in RESERVED_WORDS:
            raise ExpressionRefused(f"Attribute name is a reserved keyword; reserved keyword: {token.text}")
        return self.take()


def _tokens(expression: str) -> list[Token]:
    tokens, position = [], _end_of_space(expression, 0)
    while position < len(expression):
        found = _TOKEN.match(expression, position)
        if found is None:
            raise ExpressionRefused(
                f'Syntax error; token: "{expression[position]}", near: "{expression[position:][:10]}"'
            )
        tokens.append(Token(Kind[str(found.lastgroup)], found[0], position))
        position = _end_of_space(expression, found.end())
    return [*tokens, Token(Kind.END, "", position)]


def _end_of_space(expression: str, position: int) -> int:
    space = _SPACE.match(expression, position)
    return position if space is None else space.end()
