"""What rolls a deployment of the handlers back."""

from __future__ import annotations

from typing import Any

from evenflow.stream_core.metrics.metric_catalogue import DELIVERY_JITTER, RESPONSE_FAILURE_RATE
from tests.infrastructure.synthesis import Synthesis


def _resources(synthesis: Synthesis) -> dict[str, dict[str, Any]]:
    """By logical id. The autoscaling's alarm has no name of ours."""
    alarms = synthesis.of_type("AWS::CloudWatch::Alarm", "service")
    return {
        logical_id: alarm["Properties"]
        for logical_id, alarm in alarms.items()
        if "AlarmName" in alarm["Properties"]
    }


def _alarms(synthesis: Synthesis) -> dict[str, dict[str, Any]]:
    prefix = f"{synthesis.settings.prefix}-rollback-"
    return {
        alarm["AlarmName"].removeprefix(prefix): alarm for alarm in _resources(synthesis).values()
    }


def test_the_service_watches_all_of_them_and_its_tasks_start(synthesis: Synthesis) -> None:
    (service,) = (
        service["Properties"]
        for service in synthesis.of_type("AWS::ECS::Service", "service").values()
        if str(service["Properties"]["ServiceName"]).endswith("-handler")
    )
    configuration = service["DeploymentConfiguration"]
    assert configuration["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    watched = configuration["Alarms"]
    assert (watched["Enable"], watched["Rollback"]) == (True, True)
    ids = {name["Ref"] for name in watched["AlarmNames"]}
    assert ids == _resources(synthesis).keys()
    assert _alarms(synthesis).keys() == {"errors", "answers", "evenness"}


def test_failed_answers_and_uneven_ones_count_as_in_their_own_alarms(
    synthesis: Synthesis,
) -> None:
    alarms = _alarms(synthesis)
    for name, metric in (("answers", RESPONSE_FAILURE_RATE), ("evenness", DELIVERY_JITTER)):
        alarm = alarms[name]
        assert metric.alarm is not None
        assert (alarm["Namespace"], alarm["MetricName"]) == ("Evenflow", metric.name)
        assert alarm["Dimensions"] == [{"Name": "Environment", "Value": synthesis.settings.prefix}]
        statistic = alarm.get("Statistic") or alarm["ExtendedStatistic"]
        assert (statistic, alarm["Threshold"]) == (metric.alarm.statistic, metric.alarm.above)


def test_refusals_count_as_the_settings_say(synthesis: Synthesis) -> None:
    alarm = _alarms(synthesis)["errors"]
    assert alarm["MetricName"] == "HTTPCode_Target_5XX_Count"
    assert alarm["Threshold"] == synthesis.settings.handler.server_errors_per_minute


def test_two_bad_minutes_of_three_roll_back_and_silence_never_does(synthesis: Synthesis) -> None:
    for alarm in _alarms(synthesis).values():
        assert alarm["ComparisonOperator"] == "GreaterThanThreshold"
        assert (alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]) == (2, 3)
        assert (alarm["Period"], alarm["TreatMissingData"]) == (60, "notBreaching")
