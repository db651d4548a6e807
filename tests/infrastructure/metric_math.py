"""Evaluates the part of CloudWatch's metric math that our alarms use, since neither CDK nor
cfn-lint reads an expression.

The grammar of that part is Python's own, so Python parses it. Operators, comparisons and IF work
datapoint by datapoint, and a datapoint is missing where an operand is; DIFF is the difference to
the datapoint before, and has none at the first one. Where CloudWatch's documentation is silent,
`cautious` takes the worse of two readings: that IF has a value only where both of its branches have
one, and that DIFF has none behind a missing datapoint. An expression should be right in both.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Series = list[float | None]

_OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}


@dataclass(frozen=True)
class MetricMath:
    """The `Metrics` of an alarm, over `series` by the ids of those that are metrics; all of one
    length, None where nothing was published.
    """

    queries: Sequence[Mapping[str, Any]]
    series: Mapping[str, Series]
    cautious: bool = False

    def result(self) -> Series:
        """What the alarm compares with its threshold."""
        [returned] = [query for query in self.queries if query.get("ReturnData", True)]
        return self._of(returned)

    def _of(self, query: Mapping[str, Any]) -> Series:
        if "MetricStat" in query:
            return self.series[query["Id"]]
        return self._evaluate(ast.parse(query["Expression"], mode="eval").body)

    def _evaluate(self, node: ast.expr) -> Series:
        match node:
            case ast.Constant(value=int() | float() as value):
                return [float(value)] * len(next(iter(self.series.values())))
            case ast.Name(id=name):
                return self._of(next(query for query in self.queries if query["Id"] == name))
            case (
                ast.BinOp(left=left, op=op, right=right)
                | ast.Compare(left=left, ops=[op], comparators=[right])
            ):
                pairs = zip(self._evaluate(left), self._evaluate(right), strict=True)
                return [_apply(_OPERATORS[type(op)], a, b) for a, b in pairs]
            case ast.Call(func=ast.Name(id="DIFF"), args=[of]):
                return self._differences(self._evaluate(of))
            case ast.Call(func=ast.Name(id="IF"), args=[condition, then, otherwise]):
                columns = zip(
                    *(self._evaluate(part) for part in (condition, then, otherwise)), strict=True
                )
                return [self._choose(*column) for column in columns]
        raise NotImplementedError(ast.unparse(node))

    def _choose(
        self, condition: float | None, then: float | None, otherwise: float | None
    ) -> float | None:
        if condition is None or (self.cautious and None in (then, otherwise)):
            return None
        return then if condition else otherwise

    def _differences(self, series: Series) -> Series:
        before: float | None = None
        differences: Series = []
        for value in series:
            differences.append(None if value is None or before is None else value - before)
            before = before if value is None and not self.cautious else value
        return differences


def _apply(
    function: Callable[[float, float], float], left: float | None, right: float | None
) -> float | None:
    if left is None or right is None:
        return None
    try:
        return float(function(left, right))
    except ZeroDivisionError:
        return None
