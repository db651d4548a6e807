"""What CloudWatch stores of a log line in embedded metric format: no emulator extracts metrics from
logs.

By
docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

_METRICS = 100
_VALUES = 100
_DIMENSIONS = 30


class NothingExtracted(Exception):
    """CloudWatch would keep the line as a log event and make no metric of it.

    The message says by which rule.
    """


def put_metric_data_requests(line: str) -> list[dict[str, Any]]:
    """The `PutMetricData` requests, one for each directive, that store what CloudWatch makes of a
    log line.

    Raises:
        NothingExtracted: the line is not valid embedded metric format.
    """
    try:
        root = json.loads(line)
    except ValueError:
        raise NothingExtracted("the line is not JSON") from None
    _require(
        isinstance(root, dict) and isinstance(root.get("_aws"), dict), "there is no object `_aws`"
    )
    timestamp, directives = root["_aws"].get("Timestamp"), root["_aws"].get("CloudWatchMetrics")
    _require(_is_number(timestamp), "`_aws.Timestamp` is not a number of milliseconds")
    _require(isinstance(directives, list), "`_aws.CloudWatchMetrics` is not an array")
    moment = datetime.fromtimestamp(timestamp / 1000, UTC)
    return [_request(root, directive, moment) for directive in directives]


def _request(root: dict[str, Any], directive: dict[str, Any], moment: datetime) -> dict[str, Any]:
    namespace: Any = directive.get("Namespace")
    sets: Any = directive.get("Dimensions")
    metrics: Any = directive.get("Metrics")
    _require(
        isinstance(namespace, str) and 1 <= len(namespace) <= 1024, "`Namespace` is not a string"
    )
    _require(
        isinstance(sets, list) and all(isinstance(names, list) for names in sets),
        "`Dimensions` holds no arrays",
    )
    _require(
        isinstance(metrics, list) and len(metrics) <= _METRICS,
        f"`Metrics` is not an array of at most {_METRICS}",
    )
    dimension_sets = [_dimensions(root, names) for names in sets] or [[]]
    return {
        "Namespace": namespace,
        "MetricData": [
            _datum(root, metric, moment) | {"Dimensions": dimensions}
            for metric in metrics
            for dimensions in dimension_sets
        ],
    }


def _dimensions(root: dict[str, Any], names: list[str]) -> list[dict[str, str]]:
    _require(len(names) <= _DIMENSIONS, f"a dimension set has more than {_DIMENSIONS} names")
    for name in names:
        _require(
            isinstance(root.get(name), str) and root[name] != "",
            f"dimension `{name}` is not a string of the root",
        )
    return [{"Name": name, "Value": root[name]} for name in names]


def _datum(root: dict[str, Any], metric: dict[str, Any], moment: datetime) -> dict[str, Any]:
    name = metric.get("Name")
    _require(isinstance(name, str) and name in root, f"metric `{name}` is no member of the root")
    target = root[str(name)]
    values = target if isinstance(target, list) else [target]
    _require(
        0 < len(values) <= _VALUES and all(map(_is_number, values)),
        f"`{name}` is not a number or up to {_VALUES} of them",
    )
    counted = Counter(map(float, values))
    return {
        "MetricName": name,
        "Timestamp": moment,
        "Unit": metric.get("Unit", "None"),
        "Values": list(counted),
        "Counts": list(counted.values()),
    }


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise NothingExtracted(rule)
