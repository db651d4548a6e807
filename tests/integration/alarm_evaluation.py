"""Whether an alarm of a CloudFormation template would be raised by given data, as CloudWatch
evaluates it.

No emulator knows metric math or missing data. By
docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/, "Configuring how CloudWatch alarms treat
missing data". A period without data is filled at once; CloudWatch first looks whether older ones
have enough.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.infrastructure.metric_math import MetricMath, Series

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}


@dataclass(frozen=True)
class Selection:
    """The series that an alarm takes from a metric.

    `unit` is None where it takes whatever was published.
    """

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str
    period: int
    unit: str | None


def selections(alarm: Mapping[str, Any]) -> dict[str, Selection]:
    """The series of an alarm's properties by their ids in its expression; `""` where it has
    none.
    """
    if "Metrics" not in alarm:
        return {"": _selection(alarm, alarm.get("Statistic") or alarm["ExtendedStatistic"], alarm)}
    return {
        query["Id"]: _selection(stat["Metric"], stat["Stat"], stat)
        for query in alarm["Metrics"]
        if (stat := query.get("MetricStat"))
    }


def _selection(metric: Mapping[str, Any], statistic: str, rest: Mapping[str, Any]) -> Selection:
    dimensions = tuple(
        (dimension["Name"], dimension["Value"]) for dimension in metric.get("Dimensions", [])
    )
    return Selection(
        metric["Namespace"],
        metric["MetricName"],
        dimensions,
        statistic,
        rest["Period"],
        rest.get("Unit"),
    )


def is_raised(alarm: Mapping[str, Any], series: Mapping[str, Series]) -> bool:
    """Whether the alarm is in state ALARM after the last period of `series`, which has those of
    `selections`.

    Where the documentation of metric math leaves two readings, both must come to the same.
    """
    if "Metrics" not in alarm:
        return _is_crossed(alarm, series[""])
    readings = {
        _is_crossed(alarm, MetricMath(alarm["Metrics"], series, cautious).result())
        for cautious in (False, True)
    }
    assert len(readings) == 1, "it depends on how metric math is read"
    return readings.pop()


def _is_crossed(alarm: Mapping[str, Any], watched: Series) -> bool:
    considered = watched[-alarm["EvaluationPeriods"] :]
    if all(value is None for value in considered) and alarm["TreatMissingData"] not in (
        "breaching",
        "notBreaching",
    ):
        return False
    crosses, threshold = _COMPARISONS[alarm["ComparisonOperator"]], alarm["Threshold"]
    silence_crosses = alarm["TreatMissingData"] == "breaching"
    crossed = sum(
        silence_crosses if value is None else crosses(value, threshold) for value in considered
    )
    needed: int = alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"])
    return bool(crossed >= needed)


def rule_of(resources: Mapping[str, Any], name: str) -> Callable[[set[str]], bool]:
    """When the composite alarm of this name is raised, given the names of those that are."""
    names = {
        logical_id: it["Properties"]["AlarmName"]
        for logical_id, it in resources.items()
        if it["Type"] == "AWS::CloudWatch::Alarm"
    }
    [rule] = (
        it["Properties"]["AlarmRule"]
        for it in resources.values()
        if it["Type"] == "AWS::CloudWatch::CompositeAlarm" and it["Properties"]["AlarmName"] == name
    )
    _, parts = rule["Fn::Join"]
    text = "".join(
        part if isinstance(part, str) else names[part["Fn::GetAtt"][0]] for part in parts
    )
    # What is left of CloudWatch's grammar is Python's, too.
    text = re.sub(r'ALARM\("([^"]+)"\)', r"('\1' in raised)", text)
    compiled = compile(text.replace("AND", "and").replace("OR", "or"), name, "eval")
    return lambda raised: bool(eval(compiled, {"raised": raised}))  # noqa: S307 - our own template
