"""The grammar of conditions: ConditionExpression, FilterExpression, KeyConditionExpression."""

from __future__ import annotations

from tests.dynamodb_emulator.expressions.conditions import (
    And,
    AttributeExists,
    AttributeType,
    BeginsWith,
    Between,
    Comparison,
    Condition,
    Contains,
    In,
    Not,
    Operand,
    Or,
    Placeholder,
    Size,
)
from tests.dynamodb_emulator.expressions.paths import Path
from tests.dynamodb_emulator.expressions.tokens import ExpressionRefused, Kind, Names, Parser

_SIGNS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_MOST_CHOICES = 100
_FUNCTIONS = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}


class ConditionParser(Parser):
    """Reads a condition."""

    def __init__(self, expression: str, names: Names) -> None:
        super().__init__(expression, names)
        self.paths: list[Path] = []
        """Every path in it."""
        self._last_group = (-1, -1)

    def condition(self) -> Condition:
        """The whole expression."""
        condition = self._or()
        self.expect_end()
        return condition

    def path(self) -> Path:
        """A path; remembers it."""
        self.paths.append(super().path())
        return self.paths[-1]

    def _or(self) -> Condition:
        left = self._and()
        while self.take_if("OR"):
            left = Or(left, self._and())
        return left

    def _and(self) -> Condition:
        left = self._not()
        while self.take_if("AND"):
            left = And(left, self._not())
        return left

    def _not(self) -> Condition:
        if self.take_if("NOT"):
            return Not(self._not())
        return self._group() if self.token.text == "(" else self._test()

    def _group(self) -> Condition:
        opened = self._next
        self.expect("(")
        condition = self._or()
        closed = self._next
        self.expect(")")
        if self._last_group == (opened + 1, closed - 1):
            raise ExpressionRefused("The expression has redundant parentheses;")
        self._last_group = (opened, closed)
        return condition

    def _test(self) -> Condition:
        if self.calls_function and self.token.text != "size":
            return self._function()
        operand = self._operand()
        if self.token.text in _SIGNS:
            sign, other = self.take(), self._operand()
            _check_distinct(sign, operand, other)
            return Comparison(sign, operand, other)
        if self.take_if("BETWEEN"):
            lower = self._operand()
            self.expect("AND")
            return Between(operand, lower, self._operand())
        if self.take_if("IN"):
            return In(operand, self._choices())
        if isinstance(operand, Size) and self.token.text in {"", "AND", "OR", ")"}:
            raise _misused("size")
        raise self.complaint()

    def _choices(self) -> tuple[Operand, ...]:
        self.expect("(")
        choices = [self._operand()]
        while self.take_if(","):
            choices.append(self._operand())
        self.expect(")")
        if len(choices) > _MOST_CHOICES:
            raise ExpressionRefused(
                f"Invalid operand count for the IN operator; at most {_MOST_CHOICES}, found {len(choices)}"
            )
        return tuple(choices)

    def _operand(self) -> Operand:
        if self.calls_function:
            if self.token.text != "size":
                raise _misused(self.token.text)
            return Size(_path("size", self._arguments()[0]))
        return Placeholder(self.value()) if self.token.kind is Kind.VALUE else self.path()

    # -- functions -----------------------------------------------------------------------------------------------

    def _function(self) -> Condition:
        name = self.token.text
        first, *others = self._arguments()
        match name:
            case "attribute_exists":
                return AttributeExists(_path(name, first))
            case "attribute_not_exists":
                return Not(AttributeExists(_path(name, first)))
            case "attribute_type":
                if not isinstance(others[0], Placeholder):
                    raise ExpressionRefused("attribute_type needs a type as its second operand")
                return AttributeType(_path(name, first), others[0])
            case "begins_with":
                return BeginsWith(first, others[0])
            case _:
                return Contains(first, others[0])

    def _arguments(self) -> list[Operand]:
        name = self.take()
        if name not in _FUNCTIONS:
            raise ExpressionRefused(f"Invalid function name; function: {name}")
        self.expect("(")
        operands = [self._operand()]
        while self.take_if(","):
            operands.append(self._operand())
        self.expect(")")
        if len(operands) != _FUNCTIONS[name]:
            raise ExpressionRefused(
                "Incorrect number of operands for operator or function; "
                f"operator or function: {name}, number of operands: {len(operands)}"
            )
        _check_distinct(name, *operands)
        return operands


def _check_distinct(operator: str, first: Operand, other: Operand | None = None) -> None:
    if isinstance(first, Path) and first == other:
        raise ExpressionRefused(
            "The first operand must be distinct from the remaining operands for this operator or function; "
            f"operator: {operator}, first operand: {first}"
        )


def _path(function: str, operand: Operand) -> Path:
    if not isinstance(operand, Path):
        raise ExpressionRefused(f"Operator or function requires a document path; operator or function: {function}")
    return operand


def _misused(function: str) -> ExpressionRefused:
    return ExpressionRefused(f"The function is not allowed to be used this way in an expression; function: {function}")
