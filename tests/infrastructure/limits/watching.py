"""Limits of alarms and of dashboards."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.infrastructure.limits.deployment import Deployment, Properties
from tests.infrastructure.limits.limit import Fault, Limit, text, too_many

_ALARM, _COMPOSITE = "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"
_DASHBOARD = "AWS::CloudWatch::Dashboard"
_QUOTAS = "AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html"
_ALARM_PAGE = "AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html"
_COMPOSITE_PAGE = "AmazonCloudWatch/latest/APIReference/API_PutCompositeAlarm.html"
_MATH_PAGE = "AmazonCloudWatch/latest/monitoring/using-metric-math.html"
_DAY = 86_400
# Functions that an alarm refuses, since they give several time series or none.
_NOT_IN_ALARMS = re.compile(r"\b(SEARCH|SORT|TIME_SERIES|SLICE|INSIGHT_RULE_METRIC)\s*\(")


def _queries(deployment: Deployment) -> Iterator[tuple[str, list[Properties]]]:
    for where, properties in deployment.resources(_ALARM):
        if "Metrics" in properties:
            yield where, properties["Metrics"]


def _metrics_of_alarms(deployment: Deployment) -> Iterator[str]:
    for where, queries in _queries(deployment):
        metrics = sum("MetricStat" in query for query in queries)
        if metrics > 10:
            yield f"{where}: {metrics} metrics"


def _math(deployment: Deployment) -> Iterator[str]:
    for where, queries in _queries(deployment):
        returned = sum(query.get("ReturnData", True) is not False for query in queries)
        if returned != 1:
            yield f"{where}: {returned} series are returned"
        yield from too_many(Counter(f"{where} {query['Id']}" for query in queries), 1, "queries")
        for query in queries:
            expression = query.get("Expression", "")
            if not re.fullmatch("[a-z][a-zA-Z0-9_]*", query["Id"]) or len(query["Id"]) > 255:
                yield f"{where}: id {query['Id']!r}"
            if len(expression) > 2_048:
                yield f"{where}: an expression of {len(expression)} characters"
            if found := _NOT_IN_ALARMS.search(expression):
                yield f"{where}: {found[1]} in an alarm"


def _changed_query(**changes: Any) -> Fault:
    def fault(deployment: Deployment) -> None:
        next(_queries(deployment))[1][0] |= changes

    return fault


def _more_metrics(deployment: Deployment) -> None:
    queries = next(_queries(deployment))[1]
    metric = next(query for query in queries if "MetricStat" in query)
    queries += [{**metric, "Id": f"more{number}", "ReturnData": False} for number in range(10)]


def _all_returned(deployment: Deployment) -> None:
    for query in next(_queries(deployment))[1]:
        query["ReturnData"] = True


def _evaluated_seconds(deployment: Deployment) -> Iterator[str]:
    """At most a day, and a week where periods are an hour or longer."""
    for where, properties in deployment.resources(_ALARM):
        periods = [
            query["MetricStat"]["Period"]
            for query in properties.get("Metrics", ())
            if "MetricStat" in query
        ]
        period = max([properties.get("Period", 0), *periods])
        evaluated = period * properties["EvaluationPeriods"]
        if evaluated > (7 * _DAY if period >= 3_600 else _DAY):
            yield f"{where}: {evaluated} s"
        if properties.get("DatapointsToAlarm", 1) > properties["EvaluationPeriods"]:
            yield f"{where}: more datapoints than periods"


def _changed_alarm(**changes: Any) -> Fault:
    return lambda deployment: deployment.first(_ALARM).update(changes)


def _composites(deployment: Deployment) -> Iterator[str]:
    for where, properties in deployment.resources(_COMPOSITE):
        rule = deployment.text(properties["AlarmRule"], where.partition("/")[0])
        if len(rule) > 10_240:
            yield f"{where}: a rule of {len(rule)} characters"
        children = len(re.findall(r"\b(?:ALARM|OK|INSUFFICIENT_DATA)\(", rule))
        if children > 100:
            yield f"{where}: {children} alarms"


def _rule(text: str) -> Fault:
    return lambda deployment: deployment.first(_COMPOSITE).update(AlarmRule=text)


def _dashboards(deployment: Deployment) -> Iterator[tuple[str, list[Properties]]]:
    for where, properties in deployment.resources(_DASHBOARD):
        body = deployment.text(properties["DashboardBody"], where.partition("/")[0])
        yield where, json.loads(body)["widgets"]


def _dashboard_counts(deployment: Deployment) -> Iterator[str]:
    for where, widgets in _dashboards(deployment):
        metrics = [len(widget["properties"].get("metrics", ())) for widget in widgets]
        yield from too_many({where: len(widgets)}, 500, "widgets")
        yield from too_many({where: max(metrics)}, 500, "metrics in a widget")
        yield from too_many({where: sum(metrics)}, 2_500, "metrics")
        for widget in widgets:
            alarms = len(widget["properties"].get("alarms", ()))
            if alarms > 100:
                yield f"{where}: a widget of {alarms} alarms"
            if not (1 <= widget["width"] <= 24 and 1 <= widget["height"] <= 1_000):
                yield f"{where}: a widget of {widget['width']} by {widget['height']}"


def _widgets(times: int, **changes: Any) -> Fault:
    widget = {"type": "metric", "width": 6, "height": 6, "properties": {"metrics": [["A", "b"]]}}

    def fault(deployment: Deployment) -> None:
        body = json.dumps({"widgets": [widget | changes] * times})
        deployment.first(_DASHBOARD)["DashboardBody"] = body

    return fault


def _with_metrics(times: int) -> dict[str, Any]:
    return {"metrics": [["A", "b"]] * times}


LIMITS = (
    text(_ALARM, "AlarmName", _ALARM_PAGE, longest=255),
    text(_COMPOSITE, "AlarmName", _COMPOSITE_PAGE, longest=255),
    text(_ALARM, "AlarmDescription", _ALARM_PAGE, longest=1_024),
    text(_COMPOSITE, "AlarmDescription", _COMPOSITE_PAGE, longest=1_024),
    Limit("an alarm: 10 metrics", _QUOTAS, _metrics_of_alarms, (_more_metrics,)),
    Limit("an alarm's metric math: ids, one series, 2,048 characters, no SEARCH", _MATH_PAGE,
          _math,
          (_changed_query(Id="Upper"), _all_returned, _changed_query(Expression="1+" * 1_025),
           _changed_query(Expression="SEARCH('a')"))),
    Limit("an alarm: periods of a day together", _ALARM_PAGE, _evaluated_seconds,
          (_changed_alarm(EvaluationPeriods=1_000_000), _changed_alarm(DatapointsToAlarm=99_999))),
    Limit("a composite alarm: a rule of 10,240 characters and 100 alarms", _COMPOSITE_PAGE,
          _composites, (_rule("x" * 10_241), _rule(" OR ".join(["ALARM(a)"] * 101)))),
    text(_DASHBOARD, "DashboardName", "AmazonCloudWatch/latest/APIReference/API_PutDashboard.html",
         longest=255, pattern="[A-Za-z0-9_-]+"),
    Limit("a dashboard: 500 widgets, 500 metrics in each, 2,500 in all", _QUOTAS,
          _dashboard_counts,
          (_widgets(501), _widgets(1, properties=_with_metrics(501)),
           _widgets(6, properties=_with_metrics(499)),
           _widgets(1, properties={"alarms": ["a"] * 101}), _widgets(1, width=25))),
)  # fmt: skip
