"""Whether an alarm of a CloudFormation template would be raised by given data, as CloudWatch evaluates it.

No emulator knows metric math or missing data. By docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/: "Configuring how
CloudWatch alarms treat missing data" and "Using math expressions". Of these only what our alarms use; the rest is refused.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Series = list[float | None]
"""One value for each period, oldest first; None where there is no data."""

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}
_ARITHMETIC: dict[type[ast.AST], Callable[[float, float], float]] = {
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
class Selection:
    """The series that an alarm takes from a metric. `unit` is None where it takes whatever was published."""

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str
    period: int
    unit: str | None


def selections(alarm: Mapping[str, Any]) -> dict[str, Selection]:
    """The series of an alarm's properties by their ids in its expression; `""` where it has none."""
    if "Metrics" not in alarm:
        return {"": _selection(alarm, alarm.get("Statistic") or alarm["ExtendedStatistic"], alarm)}
    return {
        query["Id"]: _selection(stat["Metric"], stat["Stat"], stat)
        for query in alarm["Metrics"]
        if (stat := query.get("MetricStat"))
    }


def _selection(metric: Mapping[str, Any], statistic: str, rest: Mapping[str, Any]) -> Selection:
    dimensions = tuple((dimension["Name"], dimension["Value"]) for dimension in metric.get("Dimensions", []))
    return Selection(metric["Namespace"], metric["MetricName"], dimensions, statistic, rest["Period"], rest.get("Unit"))


def is_raised(alarm: Mapping[str, Any], series: Mapping[str, Series]) -> bool:
    """Whether the alarm is in state ALARM after the last period of `series`, which has those of `selections`."""
    watched = series[""] if "" in series else _watched(alarm["Metrics"], series)
    considered = watched[-alarm["EvaluationPeriods"] :]
    if all(value is None for value in considered) and alarm["TreatMissingData"] not in ("breaching", "notBreaching"):
        return False
    crosses, threshold = _COMPARISONS[alarm["ComparisonOperator"]], alarm["Threshold"]
    silence_crosses = alarm["TreatMissingData"] == "breaching"
    crossed = sum(silence_crosses if value is None else crosses(value, threshold) for value in considered)
    needed: int = alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"])
    return bool(crossed >= needed)


def _watched(queries: list[Mapping[str, Any]], series: Mapping[str, Series]) -> Series:
    """The one series that the alarm's queries return."""
    expressions = {query["Id"]: query["Expression"] for query in queries if "Expression" in query}
    (returned,) = (query["Id"] for query in queries if query.get("ReturnData", True))
    length = len(next(iter(series.values())))

    def value_of(node: ast.expr) -> Series:
        match node:
            case ast.Constant(value=int() | float() as number):
                return [float(number)] * length
            case ast.Name(id=name):
                return value_of(ast.parse(expressions[name], mode="eval").body) if name in expressions else series[name]
            case ast.BinOp(left=left, op=sign, right=right) | ast.Compare(left=left, ops=[sign], comparators=[right]):
                return _each(_ARITHMETIC[type(sign)], value_of(left), value_of(right))
            case ast.Call(func=ast.Name(id="DIFF"), args=[argument]):
                values = value_of(argument)
                return [None, *_each(operator.sub, values[1:], values[:-1])]
            case ast.Call(func=ast.Name(id="IF"), args=[condition, then, otherwise]):
                branches = zip(value_of(condition), value_of(then), value_of(otherwise), strict=True)
                return [None if when is None else a if when else b for when, a, b in branches]
        raise NotImplementedError(f"metric math: {ast.unparse(node)}")

    return value_of(ast.Name(id=returned))


def _each(function: Callable[[float, float], float], left: Series, right: Series) -> Series:
    """Without data on a side, and of a division by zero, there is none."""
    return [
        None if a is None or b is None or (function is operator.truediv and b == 0) else float(function(a, b))
        for a, b in zip(left, right, strict=True)
    ]
