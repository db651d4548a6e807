from __future__ import annotations

import pytest

from tests.infrastructure.metric_math import Series
from tests.integration.alarm_evaluation import Selection, is_raised, selections

PLAIN = {
    "Namespace": "Evenflow",
    "MetricName": "m",
    "Dimensions": [{"Name": "Environment", "Value": "dev"}],
    "ExtendedStatistic": "p95",
    "Period": 60,
    "Threshold": 10,
    "ComparisonOperator": "GreaterThanThreshold",
    "EvaluationPeriods": 5,
    "DatapointsToAlarm": 3,
    "TreatMissingData": "notBreaching",
}


@pytest.mark.parametrize(
    ("series", "missing", "raised"),
    [
        ([11, 1, 11, 1, 11], "notBreaching", True),
        ([11, 1, 11, 1, 10], "notBreaching", False),
        ([11, 11, 11, 1, 1, 1, 1], "notBreaching", False),
        ([11, None, 11, None, 1], "notBreaching", False),
        ([11, None, 11, None, 1], "breaching", True),
        ([None] * 5, "breaching", True),
        ([None] * 5, "missing", False),
    ],
)
def test_so_many_of_so_many_and_what_is_missing(series: Series, missing: str, raised: bool) -> None:
    assert is_raised(PLAIN | {"TreatMissingData": missing}, {"": series}) is raised


def test_what_a_plain_alarm_selects() -> None:
    expected = Selection("Evenflow", "m", (("Environment", "dev"),), "p95", 60, None)
    assert selections(PLAIN) == {"": expected}
    assert selections(PLAIN | {"Unit": "Milliseconds"})[""].unit == "Milliseconds"


def expression(text: str, **others: str) -> dict[str, object]:
    metric = {"Namespace": "Evenflow", "MetricName": "m"}
    queries = [
        {"Id": "result", "Expression": text},
        *({"Id": name, "Expression": other, "ReturnData": False} for name, other in others.items()),
        {
            "Id": "now",
            "MetricStat": {"Metric": metric, "Stat": "Sum", "Period": 60},
            "ReturnData": False,
        },
    ]
    once = {"EvaluationPeriods": 1, "DatapointsToAlarm": 1, "TreatMissingData": "breaching"}
    return {
        "Metrics": queries,
        "Threshold": 50,
        "ComparisonOperator": "GreaterThanThreshold",
    } | once


DROP = expression(
    "IF(before>100, 100*(before-now)/IF(before>100, before, 1), 0)", before="now-DIFF(now)"
)


@pytest.mark.parametrize(
    ("series", "raised"),
    [
        ([200, 99], True),
        ([200, 100], False),
        ([100, 0], False),
        ([0, 0], False),
        ([200, None], True),
        ([None, 200], True),
        ([200], True),
    ],
)
def test_a_drop_in_metric_math(series: Series, raised: bool) -> None:
    """DIFF has no value at the first datapoint, nor beside one that is missing."""
    assert list(selections(DROP)) == ["now"]
    assert is_raised(DROP, {"now": series}) is raised


def test_an_expression_that_may_be_read_in_two_ways_is_refused() -> None:
    with pytest.raises(AssertionError, match="how metric math is read"):
        is_raised(expression("DIFF(now)"), {"now": [1, None, 5]})
