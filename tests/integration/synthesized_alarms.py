"""The alarms on our own metrics, as reviewed: tests/infrastructure holds the snapshots to what is
synthesized.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.integration.alarm_evaluation import selections
from tests.integration.published_minutes import ENVIRONMENT, Alarms
from tests.integration.server_process import ROOT

_TEMPLATES = ROOT / "tests" / "infrastructure" / "snapshots" / ENVIRONMENT


def of_observability() -> dict[str, Any]:
    """The resources of the stack of alarms, by their ids."""
    template = json.loads((_TEMPLATES / "observability.json").read_text("utf-8"))
    resources: dict[str, Any] = template["Resources"]
    return resources


def of_minutes() -> Alarms:
    """Those of all stacks by their ids, with those that autoscaling makes to hold a target.

    Those of promises look at hours.
    """
    alarms = {
        name: alarm["Properties"] for name, alarm in _of_type("AWS::CloudWatch::Alarm").items()
    }
    for name, policy in _of_type("AWS::ApplicationAutoScaling::ScalingPolicy").items():
        tracking = policy["Properties"].get("TargetTrackingScalingPolicyConfiguration", {})
        if watched := tracking.get("CustomizedMetricSpecification"):
            alarms[name] = watched | {"Period": 60}
    return {name: alarm for name, alarm in alarms.items() if _is_of_minutes(alarm)}


def that_tell_somebody() -> Alarms:
    """Those of minutes that tell somebody, by their names."""
    found = [it["Properties"] for it in of_observability().values()]
    return {
        alarm["AlarmName"]: alarm
        for alarm in found
        if "ComparisonOperator" in alarm and _is_of_minutes(alarm)
    }


def _of_type(kind: str) -> dict[str, Any]:
    templates = [json.loads(path.read_text("utf-8")) for path in _TEMPLATES.glob("*.json")]
    return {
        name: it
        for template in templates
        for name, it in template["Resources"].items()
        if it["Type"] == kind
    }


def _is_of_minutes(alarm: Mapping[str, Any]) -> bool:
    ours = any(selection.namespace == "Evenflow" for selection in selections(alarm).values())
    return ours and "-burn." not in alarm.get("AlarmName", "")
