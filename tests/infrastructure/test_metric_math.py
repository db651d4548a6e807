"""The evaluator itself: a wrong one would prove nothing about the alarms."""

from __future__ import annotations

import pytest

from tests.infrastructure.metric_math import MetricMath, Series


def evaluate(expression: str, *, cautious: bool = False, **series: Series) -> Series:
    metrics = [
        {"Id": name, "MetricStat": {"Metric": {"MetricName": name}}, "ReturnData": False}
        for name in series
    ]
    return MetricMath(
        [{"Id": "result", "Expression": expression}, *metrics], series, cautious
    ).result()


def test_a_datapoint_is_missing_where_an_operand_is() -> None:
    assert evaluate("a+2*b", a=[1, None, 3], b=[10, 20, None]) == [21, None, None]


def test_a_division_by_zero_has_no_value() -> None:
    assert evaluate("a/b", a=[1, 1], b=[0, 2]) == [None, 0.5]


@pytest.mark.parametrize(
    ("cautious", "expected"), [(False, [None, 2, None, -3]), (True, [None, 2, None, None])]
)
def test_a_difference_is_to_the_datapoint_before_and_the_first_one_has_none(
    cautious: bool, expected: Series
) -> None:
    assert evaluate("DIFF(a)", cautious=cautious, a=[5, 7, None, 4]) == expected


@pytest.mark.parametrize(("cautious", "expected"), [(False, [7, None]), (True, [None, None])])
def test_the_two_readings_of_a_branch_not_taken(cautious: bool, expected: Series) -> None:
    assert evaluate("IF(a>1, b, 1/(a-2))", cautious=cautious, a=[2, None], b=[7, 7]) == expected


def test_an_expression_that_is_not_understood_is_not_guessed() -> None:
    with pytest.raises(NotImplementedError, match="FILL"):
        evaluate("FILL(a, 0)", a=[1])
