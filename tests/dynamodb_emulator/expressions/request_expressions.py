"""The expressions of one request, with the names and values that it gives them: all are used, and all are defined."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from tests.dynamodb_emulator.attribute_values import Item, value_size
from tests.dynamodb_emulator.errors import invalid
from tests.dynamodb_emulator.expressions.condition_grammar import ConditionParser
from tests.dynamodb_emulator.expressions.conditions import Condition
from tests.dynamodb_emulator.expressions.paths import Path, clash
from tests.dynamodb_emulator.expressions.tokens import ExpressionRefused, Names, Parser
from tests.dynamodb_emulator.expressions.update_grammar import UpdateParser
from tests.dynamodb_emulator.expressions.updates import Update
from tests.dynamodb_emulator.parameters import Request

T = TypeVar("T")

_LARGEST_EXPRESSION = 4096
_PARSED_EXPRESSIONS = 4096
_PLACEHOLDER = {
    "ExpressionAttributeNames": re.compile("#[A-Za-z0-9_]+"),
    "ExpressionAttributeValues": re.compile(":[A-Za-z0-9_]+"),
}


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """An expression, understood, and the placeholders that it uses."""

    meaning: T
    paths: tuple[Path, ...]
    names: frozenset[str]
    values: frozenset[str]


class RequestExpressions:
    """Reads a request's expressions; `finish` when all have been read."""

    def __init__(self, request: Request) -> None:
        self.values: Item = request.get("ExpressionAttributeValues", {})
        self._request = request
        self._names: Names = tuple(request.get("ExpressionAttributeNames", {}).items())
        self._used: set[str] = set()
        for parameter, spelling in _PLACEHOLDER.items():
            if parameter in request:
                _check_placeholders(parameter, request[parameter], spelling)
        for value in self.values.values():
            value_size(value)

    def condition(self, parameter: str) -> Parsed[Condition] | None:
        """The condition that this parameter holds, if the request has it."""
        found = self._parsed(parameter, _condition)
        if found is not None:
            self._checked(parameter, found.meaning.check)
        return found

    def update(self) -> Update:
        """The update; one that changes nothing if the request has none."""
        found = self._parsed("UpdateExpression", _update)
        if found is None:
            return Update()
        self._checked("UpdateExpression", found.meaning.check)
        return found.meaning

    def projection(self) -> tuple[Path, ...] | None:
        """The paths that are asked for; None for the whole item."""
        found = self._parsed("ProjectionExpression", _projection)
        return None if found is None else found.paths

    def finish(self) -> None:
        """Refuse names and values that no expression has used."""
        for parameter in _PLACEHOLDER:
            if unused := set(self._request.get(parameter, ())) - self._used:
                raise invalid(
                    f"Value provided in {parameter} unused in expressions: keys: {{{', '.join(sorted(unused))}}}"
                )

    def _parsed(self, parameter: str, parse: Callable[[str, Names], Parsed[T]]) -> Parsed[T] | None:
        expression = self._request.get(parameter)
        if expression is None:
            return None
        try:
            if not expression.strip() or len(expression.encode()) > _LARGEST_EXPRESSION:
                raise ExpressionRefused("The expression can not be empty, nor have more than 4096 bytes;")
            found = parse(expression, self._names)
            if undefined := found.values - self.values.keys():
                raise ExpressionRefused(
                    "An expression attribute value used in expression is not defined; "
                    f"attribute value: {min(undefined)}"
                )
        except ExpressionRefused as refused:
            raise invalid(f"Invalid {parameter}: {refused}") from None
        except RecursionError:
            raise invalid(f"Invalid {parameter}: The expression is nested too deeply") from None
        self._used |= found.names | found.values
        return found

    def _checked(self, parameter: str, check: Callable[[Item], None]) -> None:
        try:
            check(self.values)
        except ExpressionRefused as refused:
            raise invalid(f"Invalid {parameter}: {refused}") from None


@lru_cache(_PARSED_EXPRESSIONS)
def _condition(expression: str, names: Names) -> Parsed[Condition]:
    parser = ConditionParser(expression, names)
    return _result(parser, parser.condition(), tuple(parser.paths))


@lru_cache(_PARSED_EXPRESSIONS)
def _update(expression: str, names: Names) -> Parsed[Update]:
    parser = UpdateParser(expression, names)
    update = parser.update()
    return _result(parser, update, tuple(update.paths))


@lru_cache(_PARSED_EXPRESSIONS)
def _projection(expression: str, names: Names) -> Parsed[None]:
    parser = Parser(expression, names)
    paths = [parser.path()]
    while parser.take_if(","):
        paths.append(parser.path())
    parser.expect_end()
    if found := clash(paths):
        raise ExpressionRefused(found)
    return _result(parser, None, tuple(paths))


def _result(parser: Parser, meaning: T, paths: tuple[Path, ...]) -> Parsed[T]:
    return Parsed(meaning, paths, frozenset(parser.names_used), frozenset(parser.values_used))


def _check_placeholders(parameter: str, given: Request, spelling: re.Pattern[str]) -> None:
    if not given:
        raise invalid(f"{parameter} must not be empty")
    for name, meaning in given.items():
        if not spelling.fullmatch(name):
            raise invalid(f'{parameter} contains invalid key: Syntax error; key: "{name}"')
        if parameter == "ExpressionAttributeNames" and type(meaning) is not str:
            raise invalid(f"{parameter} contains an invalid value for the key {name}")
