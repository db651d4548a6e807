"""The announcement before a deployment."""

from __future__ import annotations

import dataclasses

import pytest

from infra import prices
from infra.announce import announcement
from infra.costs import HOURS_PER_MONTH, Row, Traffic, costs
from infra.environments import environment
from infra.prices import Price
from infra.settings import EnvironmentSettings
from infra.stack_settings import AlarmSettings
from tests.infrastructure.synthesis import Synthesis


def _row(rows: list[Row], beginning: str) -> Row:
    (row,) = (row for row in rows if row.what.startswith(beginning))
    return row


def _rows(synthesis: Synthesis, traffic: Traffic | None = None) -> list[Row]:
    return costs(synthesis.settings, synthesis.templates.values(), traffic or Traffic())


def test_tasks_at_rest_cost_what_their_size_costs(dev: Synthesis, prod: Synthesis) -> None:
    half_a_core_and_one_gigabyte = 0.5 * 0.03238 + 0.00356
    assert _row(_rows(dev), "ECS").month_at_rest == pytest.approx(
        half_a_core_and_one_gigabyte * 730
    )
    one_core_and_two_gigabytes = 0.03238 + 2 * 0.00356
    assert _row(_rows(prod), "ECS").month_at_rest == pytest.approx(
        3 * one_core_and_two_gigabytes * 730
    )


def test_at_rest_tasks_renew_their_leases_and_look_at_those_of_others(
    dev: Synthesis, prod: Synthesis
) -> None:
    seconds = 730 * 3600
    one_task = seconds * 0.625e-6 + 2 * seconds * 0.125e-6
    assert _row(_rows(dev), "DynamoDB").month_at_rest == pytest.approx(one_task)
    assert _row(_rows(prod), "DynamoDB").month_at_rest == pytest.approx(3 * one_task)


def test_endpoints_are_counted_in_the_template(synthesis: Synthesis) -> None:
    services = 7 + (synthesis.settings.inference.kind != "demo")
    addresses = services * synthesis.settings.network.endpoint_zones
    row = _row(_rows(synthesis), "VPC endpoints")
    assert row.what == f"VPC endpoints ({addresses} addresses)"
    assert row.month_at_rest == pytest.approx(addresses * 0.01 * HOURS_PER_MONTH)


def test_alarms_secrets_and_keys_are_counted_in_the_template(synthesis: Synthesis) -> None:
    alarms = len(synthesis.of_type("AWS::CloudWatch::Alarm")) + len(
        synthesis.of_type("AWS::CloudWatch::CompositeAlarm")
    )
    assert f"{alarms} alarms" in _row(_rows(synthesis), "CloudWatch").what
    assert "Secrets (2)" in _row(_rows(synthesis), "Secrets").what


def test_an_hour_of_streams_follows_from_the_traffic(prod: Synthesis) -> None:
    traffic = Traffic(
        streams=1_000, answer_seconds=36, chunk_seconds=0.2, other_writes=20, polled=0
    )
    assert traffic.answers_per_hour == 100_000
    rows = _rows(prod, traffic)
    # 180 chunks and 20 other writes for each of 100,000 answers, $0.625 a million; the leases of
    # 2.5 tasks beside
    assert _row(rows, "DynamoDB").hour_of_streams == pytest.approx(12.5, abs=0.01)
    assert _row(rows, "Lambda").hour_of_streams == 0
    # 1,000 tokens in and 400 out for each
    assert _row(rows, "Bedrock").hour_of_streams == pytest.approx(100_000 * (0.0011 + 0.0022))
    # 10,000 connections on tasks that hold 4,000
    assert _row(rows, "ECS").hour_of_streams == pytest.approx(2.5 * (0.03238 + 2 * 0.00356))


def test_twice_the_streams_cost_twice_as_much(synthesis: Synthesis) -> None:
    once, twice = _rows(synthesis), _rows(synthesis, dataclasses.replace(Traffic(), streams=2_000))
    for one, two in zip(once, twice, strict=True):
        assert two.month_at_rest == one.month_at_rest
        assert two.hour_of_streams == pytest.approx(2 * one.hour_of_streams)


def _with_gpu(instance_type: str) -> EnvironmentSettings:
    data = environment("dev").model_dump()
    data["inference"] |= {"kind": "sagemaker", "sagemaker": {"instance_type": instance_type}}
    return EnvironmentSettings.model_validate(data)


def test_gpus_cost_even_when_nobody_asks() -> None:
    row = _row(costs(_with_gpu("ml.g6e.xlarge"), [], Traffic()), "SageMaker")
    assert row.month_at_rest == pytest.approx(
        prices.GPU_HOUR["ml.g6e.xlarge"].usd * HOURS_PER_MONTH
    )


def test_an_instance_without_a_price_is_said_so() -> None:
    row = _row(costs(_with_gpu("ml.p5.48xlarge"), [], Traffic()), "SageMaker")
    assert "add its price" in row.what


def test_every_price_says_from_where_it_is() -> None:
    known = [value for value in vars(prices).values() if isinstance(value, Price)] + list(
        prices.GPU_HOUR.values()
    )
    assert len(known) > 15
    for price in known:
        assert price.usd > 0
        assert price.source
        assert price.read.startswith("202")


def test_the_announcement_says_what_is_made_and_what_it_costs(synthesis: Synthesis) -> None:
    text = announcement(synthesis.settings, synthesis.templates, Traffic())
    for stack in synthesis.templates:
        assert stack in text
    assert "3 DynamoDB tables" in text
    assert "1 queue of dead letters" in text
    assert "1 CloudFront distribution" in text
    (total,) = (line for line in text.splitlines() if line.startswith("together"))
    at_rest = sum(row.month_at_rest for row in _rows(synthesis))
    assert f"{at_rest:,.2f}" in total


def test_a_price_that_nobody_confirmed_is_marked(choosy: Synthesis) -> None:
    text = announcement(choosy.settings, choosy.templates, Traffic())
    (gpus,) = (line for line in text.splitlines() if line.startswith("SageMaker"))
    assert gpus.startswith("SageMaker ml.g6e.xlarge * ")
    assert "* not verified" in text


def test_the_announcement_says_which_quotas_an_account_needs(
    dev: Synthesis, prod: Synthesis, choosy: Synthesis
) -> None:
    small, large, gpus = (
        announcement(s.settings, s.templates, Traffic()) for s in (dev, prod, choosy)
    )
    assert "Lambda concurrent executions: none reserved" in small
    assert "Fargate On-Demand vCPU: 3 (6 tasks: a deployment while 3 run)" in small
    assert "Bedrock" not in small
    # 100 + 600 + 1, and 100 that AWS keeps free; 134 % of 60 tasks with a core each
    assert "Lambda concurrent executions: 801 (701 reserved" in large
    assert "Fargate On-Demand vCPU: 80 (80 tasks: a deployment while 60 run)" in large
    # 1,000 streams of 20 s: 1,000 tokens each, and 400 that count five times
    profile = prod.settings.inference.bedrock.inference_profile
    assert f"Bedrock tokens a minute for {profile}: 9,000,000 (3,000 answers a minute" in large
    assert "access to anthropic.claude-haiku" in large
    assert "DynamoDB writes a second of a table: 6,200 (1,000 streams" in large
    assert "SageMaker ml.g6e.xlarge for endpoint usage: 2" in gpus


def test_the_announcement_says_who_may_come_in_and_that_nobody_hears_alarms(
    dev: Synthesis, prod: Synthesis
) -> None:
    small, large = (announcement(s.settings, s.templates, Traffic()) for s in (dev, prod))
    assert "NOTE: anybody may open a session" in small
    assert "anybody may" not in large
    assert "NOTE: alarms wake nobody" in large
    told = prod.settings.model_copy(
        update={"alarms": AlarmSettings(page_email="on-call@example.com")}
    )
    assert "NOTE" not in announcement(told, prod.templates, Traffic())
