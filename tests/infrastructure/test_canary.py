"""The canary: its function, its right, its schedule and its alarms."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow.functions.canary.smoke import QUESTION
from evenflow.functions.settings import CanaryFunctionSettings
from evenflow.stream_core.metrics.canary_metrics import CANARY_FAILURES, CANARY_FIRST_TEXT
from tests.infrastructure.conftest import Synthesize
from tests.infrastructure.synthesis import Synthesis


@pytest.fixture(scope="session", params=["staging", "prod"])
def watched(request: pytest.FixtureRequest, synthesized: Synthesize) -> Synthesis:
    """The environments with a canary."""
    return synthesized(request.param)


def _alarms(synthesis: Synthesis) -> dict[str, dict[str, Any]]:
    alarms = synthesis.of_type("AWS::CloudWatch::Alarm", "observability").values()
    return {
        alarm["Properties"]["AlarmName"].rpartition("-")[2]: alarm["Properties"] for alarm in alarms
    }


def test_dev_has_none_and_no_alarm_that_would_miss_it(dev: Synthesis) -> None:
    assert "canary" not in dev.templates
    assert not [name for name in _alarms(dev) if name.startswith("canary.")]


def test_it_asks_at_the_public_address_and_understands_what_it_is_told(
    watched: Synthesis,
) -> None:
    function = watched.only("AWS::Lambda::Function", "canary")
    variables = function["Environment"]["Variables"]
    https, domain = variables["EVENFLOW_URL"]["Fn::Join"][1]
    assert https == "https://"
    assert "Distribution" in domain["Fn::ImportValue"]
    told = CanaryFunctionSettings.from_environment(
        {name: value if isinstance(value, str) else "later" for name, value in variables.items()}
    )
    assert (told.tenant, told.metrics_environment) == ("public", watched.settings.prefix)
    assert told.question == QUESTION, "the canary asks what `make smoke` asks"
    assert "VpcConfig" not in function


def test_it_is_called_each_minute_once(watched: Synthesis) -> None:
    rule = watched.only("AWS::Events::Rule", "canary")
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(1 minute)", "ENABLED")
    (target,) = rule["Targets"]
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
    assert watched.only("AWS::Lambda::Function", "canary")["Timeout"] < 60
    permission = watched.only("AWS::Lambda::Permission", "canary")
    assert permission["Principal"] == "events.amazonaws.com"
    assert "EachMinute" in permission["SourceArn"]["Fn::GetAtt"][0]


def test_it_may_read_the_tenants_keys_and_nothing_else(watched: Synthesis) -> None:
    policy = watched.only("AWS::IAM::Policy", "canary")
    allowed = {
        action: statement
        for statement in policy["PolicyDocument"]["Statement"]
        for action in (
            [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        )
    }
    assert allowed.keys() == {
        *("logs:CreateLogStream", "logs:PutLogEvents"),
        *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
        *("secretsmanager:GetSecretValue", "kms:Decrypt"),
    }
    secret = allowed["secretsmanager:GetSecretValue"]["Resource"]["Fn::ImportValue"]
    assert "TenantKeys" in secret
    assert allowed["kms:Decrypt"]["Condition"] == {
        "StringEquals": {"kms:ViaService": "secretsmanager.us-east-1.amazonaws.com"}
    }


def test_one_missing_answer_is_no_alarm_three_of_five_and_silence_are(
    watched: Synthesis,
) -> None:
    alarm = _alarms(watched)[CANARY_FAILURES.name]
    assert (alarm["Namespace"], alarm["MetricName"]) == ("Evenflow", CANARY_FAILURES.name)
    assert alarm["Dimensions"] == [{"Name": "Environment", "Value": watched.settings.prefix}]
    assert (alarm["Statistic"], alarm["Threshold"]) == ("Sum", 0)
    assert alarm["ComparisonOperator"] == "GreaterThanThreshold"
    assert (alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]) == (3, 5)
    assert (alarm["Period"], alarm["TreatMissingData"]) == (60, "breaching")


def test_a_slow_first_text_is_an_alarm_and_silence_is_not(watched: Synthesis) -> None:
    alarm = _alarms(watched)[CANARY_FIRST_TEXT.name]
    assert (alarm["ExtendedStatistic"], alarm["Threshold"]) == ("p95", 10_000)
    assert (alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]) == (5, 5)
    assert alarm["TreatMissingData"] == "notBreaching"


def test_what_the_canary_misses_is_part_of_users_are_hurting(watched: Synthesis) -> None:
    composites = watched.of_type("AWS::CloudWatch::CompositeAlarm", "observability").values()
    name = f"{watched.settings.prefix}-users-are-hurting"
    (rule,) = (
        str(it["Properties"]["AlarmRule"])
        for it in composites
        if it["Properties"]["AlarmName"] == name
    )
    assert "canaryfailures" in rule
    assert "canaryfirsttext" not in rule
