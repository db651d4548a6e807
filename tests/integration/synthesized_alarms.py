"""The alarms as reviewed: tests/infrastructure holds the snapshots to what is synthesized."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.integration.alarm_evaluation import selections
from tests.integration.published_minutes import ENVIRONMENT, Alarms
from tests.integration.server_process import ROOT

_TEMPLATES = ROOT / "tests" / "infrastructure" / "snapshots"
ENVIRONMENTS = tuple(sorted(folder.name for folder in _TEMPLATES.iterdir()))
"""All whose templates are reviewed."""


def of_observability() -> dict[str, Any]:
    """The resources of the stack of alarms, by their ids."""
    template = json.loads((_TEMPLATES / ENVIRONMENT / "observability.json").read_text("utf-8"))
    resources: dict[str, Any] = template["Resources"]
    return resources


def of_minutes() -> Alarms:
    """Those of all stacks on minutes of our own metrics by their ids, with those that autoscaling
    makes to hold a target.

    Those of promises look at hours.
    """
    alarms = {
        name: alarm["Properties"]
        for name, alarm in _of_type("AWS::CloudWatch::Alarm", ENVIRONMENT).items()
    }
    policies = _of_type("AWS::ApplicationAutoScaling::ScalingPolicy", ENVIRONMENT)
    for name, policy in policies.items():
        tracking = policy["Properties"].get("TargetTrackingScalingPolicyConfiguration", {})
        if watched := tracking.get("CustomizedMetricSpecification"):
            alarms[name] = watched | {"Period": 60}
    return {name: alarm for name, alarm in alarms.items() if _is_of_minutes(alarm)}


def that_tell_somebody() -> Alarms:
    """Those of minutes of our own metrics that tell somebody, by their names."""
    found = [it["Properties"] for it in of_observability().values()]
    return {
        alarm["AlarmName"]: alarm
        for alarm in found
        if "ComparisonOperator" in alarm and _is_of_minutes(alarm)
    }


def named(environment: str) -> Alarms:
    """All of an environment's own, by their names without its prefix. Those of autoscaling have
    none.
    """
    kinds = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
    found = [
        alarm["Properties"] for kind in kinds for alarm in _of_type(kind, environment).values()
    ]
    prefix = f"evenflow-{environment.removesuffix('-workers')}-"
    return {
        alarm["AlarmName"].removeprefix(prefix): alarm for alarm in found if "AlarmName" in alarm
    }


def on_metrics_of_aws(environment: str) -> Alarms:
    """Those that watch what AWS measures, as by `named`."""
    return {
        name: _with_plain_dimensions(alarm)
        for name, alarm in named(environment).items()
        if alarm.get("Namespace", "").startswith("AWS/")
    }


def _with_plain_dimensions(alarm: Mapping[str, Any]) -> dict[str, Any]:
    """The same with strings where the template refers to resources that have no id yet."""
    dimensions = [
        {"Name": it["Name"], "Value": json.dumps(it["Value"])} for it in alarm["Dimensions"]
    ]
    return dict(alarm) | {"Dimensions": dimensions}


def _of_type(kind: str, environment: str) -> dict[str, Any]:
    paths = sorted((_TEMPLATES / environment).glob("*.json"))
    templates = [json.loads(path.read_text("utf-8")) for path in paths]
    return {
        name: it
        for template in templates
        for name, it in template["Resources"].items()
        if it["Type"] == kind
    }


def _is_of_minutes(alarm: Mapping[str, Any]) -> bool:
    ours = any(selection.namespace == "Evenflow" for selection in selections(alarm).values())
    return ours and "-burn." not in alarm.get("AlarmName", "")
