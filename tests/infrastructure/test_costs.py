"""The announcement before a deployment."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from evenflow.infra.announce import announcement
from evenflow.infra.estimates import prices
from evenflow.infra.estimates.costs import HOURS_PER_MONTH, CostRow, costs
from evenflow.infra.estimates.prices import AwsPrice
from evenflow.infra.estimates.quotas import output_burndown
from evenflow.infra.estimates.traffic import LARGEST_TEXT_IN_ENTRY, Traffic
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import environment
from evenflow.stream_aws import dynamodb_session_store
from evenflow.stream_core.metrics.metric_catalogue import PUBLISHED, MetricKind
from tests.infrastructure.synthesis import Synthesis


def _row(rows: list[CostRow], beginning: str) -> CostRow:
    (row,) = (row for row in rows if row.what.startswith(beginning))
    return row


def _rows(synthesis: Synthesis, traffic: Traffic | None = None) -> list[CostRow]:
    return costs(synthesis.settings, synthesis.templates.values(), traffic or Traffic())


def test_tasks_at_rest_cost_what_their_size_costs(dev: Synthesis, prod: Synthesis) -> None:
    a_quarter_of_a_core_and_one_gigabyte = 0.25 * 0.03238 + 0.00356
    assert _row(_rows(dev), "ECS").month_at_rest == pytest.approx(
        a_quarter_of_a_core_and_one_gigabyte * 730
    )
    one_core_and_two_gigabytes = 0.03238 + 2 * 0.00356
    assert _row(_rows(prod), "ECS").month_at_rest == pytest.approx(
        3 * one_core_and_two_gigabytes * 730
    )


def test_at_rest_tasks_renew_their_leases_and_look_at_those_of_others_and_at_tenants(
    dev: Synthesis, prod: Synthesis
) -> None:
    seconds = 730 * 3600
    one_task = seconds * 0.625e-6 + (2 + 1 / 3) * seconds * 0.125e-6
    assert _row(_rows(dev), "DynamoDB").month_at_rest == pytest.approx(one_task)
    assert _row(_rows(prod), "DynamoDB").month_at_rest == pytest.approx(3 * one_task)


def test_the_canary_asks_each_minute_and_then_all_metrics_are_sent(
    dev: Synthesis, prod: Synthesis
) -> None:
    asked = 730 * 60
    tokens = 30 * 1.10e-6 + 150 * 5.50e-6
    # 7.5 s at 20 tokens a second, of the function that asks, and of the polls
    functions = 2 * 7.5 * 0.25 * 0.0000133334 + 0.05 * 0.25 * 0.0000133334
    calls = 10 * (0.20e-6 + 1.00e-6) + 0.20e-6 + 12e-6  # a session and 9 polls; and CloudFront's
    delivered = 7.5 * 20 * 25 / 1e9 * 0.085
    # The last ones are usage: prod has no sessions without a key.
    writes, reads = 7.5 / 0.83 + 1 + 9 + 12 + 0.3 + 4, 3 + 9 * 9 + 2
    tables = writes * 0.625e-6 + reads * 0.125e-6
    row = _row(_rows(prod), "Canary")
    assert row.month_at_rest == pytest.approx(
        asked * (tokens + functions + calls + delivered + tables)
    )
    assert row.hour_of_streams == 0
    assert not [row for row in _rows(dev) if row.what.startswith("Canary")]
    without = prod.settings.model_copy(update={"canary": None})
    silent = costs(without, prod.templates.values(), Traffic())
    more = _row(_rows(prod), "CloudWatch").month_at_rest - _row(silent, "CloudWatch").month_at_rest
    of_events = {MetricKind.DISTRIBUTION, MetricKind.RATIO}
    assert more == pytest.approx(0.30 * (2 + sum(m.kind in of_events for m in PUBLISHED)))


def test_each_task_sends_its_metrics_each_minute(dev: Synthesis, prod: Synthesis) -> None:
    month, hour = 730 * 60 * 0.01 / 1_000, 60 * 0.01 / 1_000
    for synthesis in (dev, prod):
        row, free = (
            _row(costs(synthesis.settings.model_copy(update={"handler": handler}), [], Traffic()),
                 "CloudWatch")
            for handler in (
                synthesis.settings.handler,
                synthesis.settings.handler.model_copy(update={"tasks_min": 0}),
            )
        )  # fmt: skip
        tasks = synthesis.settings.handler.tasks_min
        assert row.month_at_rest - free.month_at_rest == pytest.approx(tasks * month)
    few, many = (
        _row(_rows(dev, dataclasses.replace(Traffic(), streams=streams)), "CloudWatch")
        for streams in (160, 320)
    )
    assert many.hour_of_streams - few.hour_of_streams == pytest.approx(hour)


def test_tasks_without_endpoints_pay_for_their_addresses(dev: Synthesis) -> None:
    assert _row(_rows(dev), "Public addresses of tasks (1)").month_at_rest == pytest.approx(3.65)
    assert not any(row.what.startswith("VPC endpoints") for row in _rows(dev))


def test_endpoints_are_counted_in_the_template(staging: Synthesis, prod: Synthesis) -> None:
    for synthesis in (staging, prod):
        _check_endpoints(synthesis)


def _check_endpoints(synthesis: Synthesis) -> None:
    services = 7 + 1  # and the model's
    addresses = services * synthesis.settings.network.endpoint_zones
    row = _row(_rows(synthesis), "VPC endpoints")
    assert row.what == f"VPC endpoints ({addresses} addresses)"
    assert row.month_at_rest == pytest.approx(addresses * 0.01 * HOURS_PER_MONTH)


def test_alarms_secrets_and_keys_are_counted_in_the_template(synthesis: Synthesis) -> None:
    alarms = len(synthesis.of_type("AWS::CloudWatch::Alarm")) + len(
        synthesis.of_type("AWS::CloudWatch::CompositeAlarm")
    )
    assert f"{alarms} alarms" in _row(_rows(synthesis), "CloudWatch").what
    assert "Secrets (3)" in _row(_rows(synthesis), "Secrets").what


def test_an_hour_of_streams_follows_from_the_traffic(prod: Synthesis) -> None:
    traffic = Traffic(
        streams=1_000,
        answer_seconds=36,
        answers_per_session=100,
        chunk_seconds=0.2,
        other_writes=18,
        typed=1,
        other_reads=8,
        polled=0,
    )
    assert traffic.answers_per_hour == 100_000
    rows = _rows(prod, traffic)
    # 180 chunks, the end, 19 other writes and 4 of usage for each of 100,000 answers, $0.625 a
    # million, and 10 reads, $0.125 a million; the leases of 2.4 tasks beside
    assert _row(rows, "DynamoDB").hour_of_streams == pytest.approx(12.88, abs=0.01)
    # 1,000 sessions are opened
    assert _row(rows, "Lambda").hour_of_streams == pytest.approx(0.0014, abs=0.0002)
    # 1,000 tokens in and 400 out for each
    assert _row(rows, "Bedrock").hour_of_streams == pytest.approx(100_000 * (0.0011 + 0.0022))
    # 10,000 connections at 40 % of the 10,500 that a task takes
    assert _row(rows, "ECS").hour_of_streams == pytest.approx(
        10_000 / 4_200 * (0.03238 + 2 * 0.00356)
    )


def test_polls_are_paid_for_as_long_as_they_wait(dev: Synthesis) -> None:
    traffic = Traffic(streams=1_000, answer_seconds=36, answers_per_session=100_000, polled=1)
    # A quarter of a gigabyte for 36 s, and 9 calls of function and HTTP API, 100,000 times
    assert _row(_rows(dev, traffic), "Lambda").hour_of_streams == pytest.approx(
        100_000 * (9 * 0.0000133334 + 9 * 1.2e-6), rel=0.001
    )


def test_it_costs_what_it_is_meant_to_cost(dev: Synthesis, prod: Synthesis) -> None:
    assert sum(row.month_at_rest for row in _rows(dev)) < 60
    # An anonymous tenant; then tenants with keys and recorded usage, behind endpoints.
    for synthesis, most, most_of_a_thousand in ((dev, 5.2, 0.02), (prod, 6, 0.025)):
        assert _without_model(_rows(synthesis)) < most
        answers = Traffic(output_tokens=300, answer_seconds=15, polled=0)
        hour = _without_model(_rows(synthesis, answers))
        assert 1_000 * hour / answers.answers_per_hour < most_of_a_thousand


def _without_model(rows: list[CostRow]) -> float:
    return sum(row.hour_of_streams for row in rows if not row.what.startswith("Bedrock"))


def test_the_log_is_paid_for_by_its_bytes(dev: Synthesis) -> None:
    # A line of the answer and one of its reader; the sessions' own are next to nothing
    read = Traffic(streams=1_000, answer_seconds=36, answers_per_session=100_000, polled=0)
    assert _row(_rows(dev, read), "Logs").hour_of_streams == pytest.approx(
        100_000 * (700 + 26 + 450 + 26) * 0.5e-9, rel=0.001
    )


def test_a_web_acl_costs_by_its_rules_and_requests(dev: Synthesis) -> None:
    acl = {"Type": "AWS::WAFv2::WebACL", "Properties": {"Rules": [{}, {}, {}]}}
    template = {"Resources": {"Acl": acl}}
    row = _row(costs(dev.settings, [template], Traffic()), "WAF (3 rules)")
    assert row.month_at_rest == 8
    # Two calls a session of five answers, ten for each answer that is polled
    assert row.hour_of_streams == pytest.approx(180_000 * (2 / 5 + 0.05 * 10) * 0.6e-6)


def test_twice_the_streams_cost_twice_as_much(synthesis: Synthesis) -> None:
    once, twice = _rows(synthesis), _rows(synthesis, dataclasses.replace(Traffic(), streams=2_000))
    for one, two in zip(once, twice, strict=True):
        assert two.month_at_rest == one.month_at_rest
        # As many metrics, however much they count; and a call a second is traced in any case.
        if not one.what.startswith(("CloudWatch", "Traces")):
            assert two.hour_of_streams == pytest.approx(2 * one.hour_of_streams)


def test_a_long_prompt_costs_a_unit_a_kilobyte_and_one_more_and_a_key_four() -> None:
    def writes(**fields: Any) -> float:
        return Traffic(**fields).writes_per_answer - Traffic().writes_per_answer

    assert LARGEST_TEXT_IN_ENTRY == dynamodb_session_store.LARGEST_TEXT_IN_ENTRY
    assert writes(keyed=1) == pytest.approx(4)
    assert writes(prompt_bytes=1_024) == pytest.approx(3)
    assert writes(prompt_bytes=4_096) == pytest.approx(5)
    assert writes(prompt_bytes=102_400) == pytest.approx(101)
    # 4.5 KB in a transaction, and 6.1 KB when it is answered, instead of 0.5 and 2.1
    assert Traffic(prompt_bytes=4_096).prompt_writes(apart=False) == 2 * (5 - 1) + 7 - 3


def test_events_of_the_model_pass_the_endpoints(prod: Synthesis, dev: Synthesis) -> None:
    # 20,000 events a second of 280 bytes, and prompts of 4 KB
    assert _row(_rows(prod), "VPC endpoints").hour_of_streams == pytest.approx(
        (20_000 * 280 * 3600 + 180_000 * 4_000) / 1e9 * 0.01
    )
    assert _row(_rows(dev), "Public").hour_of_streams == pytest.approx(6.25 * 0.005)


def test_answers_are_stored_for_a_day_and_usage_for_ninety(dev: Synthesis, prod: Synthesis) -> None:
    answers = 180_000 * 12_200 / 1e9 * 0.25 * 24 / 730
    usage = 180_000 * 700 * 90 / 1e9 * 0.25 * 24 / 730
    assert _row(_rows(dev), "Storage").hour_of_streams == pytest.approx(answers)
    assert _row(_rows(prod), "Storage").hour_of_streams == pytest.approx(answers + usage)


def test_functions_are_traced_once_a_second_and_at_a_twentieth(
    dev: Synthesis, prod: Synthesis
) -> None:
    # 81,000 polls and 36,000 sessions an hour
    hour = (2 * 3600 + 0.05 * (81_000 + 36_000 - 7_200)) * 5e-6
    assert _row(_rows(prod), "Traces").hour_of_streams == pytest.approx(hour)
    assert _row(_rows(prod), "Traces").month_at_rest == pytest.approx(730 * 60 * 11 * 5e-6)
    assert _row(_rows(dev), "Traces").month_at_rest == 0


def test_flows_are_logged_in_prod_alone(dev: Synthesis, prod: Synthesis) -> None:
    row = _row(_rows(prod), "VPC flow logs")
    # Three zones of the load balancer look at three tasks every ten seconds.
    assert row.month_at_rest == pytest.approx(730 * 360 * 9 * 4 * 136 * 0.5e-9)
    assert row.hour_of_streams == pytest.approx(10_000 * 6 * 6 * 136 * 0.5e-9)
    assert not [row for row in _rows(dev) if row.what.startswith("VPC flow")]


def test_a_budget_has_its_price_which_is_not_sure(dev: Synthesis) -> None:
    budget = {"Resources": {"Budget": {"Type": "AWS::Budgets::Budget"}}}
    row = _row(costs(dev.settings, [budget], Traffic()), "Budget")
    assert row.month_at_rest == pytest.approx(0.02 * 365 / 12)
    assert not any(price.sure for price in row.prices)
    assert not [row for row in _rows(dev) if row.what.startswith("Budget")]


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
    known = [value for value in vars(prices).values() if isinstance(value, AwsPrice)] + list(
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
    assert "4 DynamoDB tables" in text
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
    assert "Fargate On-Demand vCPU: 1.5 (6 tasks: a deployment while 3 run)" in small
    assert "Bedrock" not in small
    # 100 + 600 + 1, and 100 that AWS keeps free; 134 % of 60 tasks with a core each
    assert "Lambda concurrent executions: 801 (701 reserved" in large
    assert "Fargate On-Demand vCPU: 80 (80 tasks: a deployment while 60 run)" in large
    # 1,000 streams of 20 s: 1,000 tokens and 5 times 400 each; each reserves 4,096 while it runs
    profile = prod.settings.inference.bedrock.inference_profile
    assert (
        f"Bedrock tokens a minute for {profile}: 13,096,000 (3,000 answers a minute, 1,000 "
        "streams: 9,000,000 used, an output token counts 5 times; 4,096,000 reserved, 4,096 by "
        "each answer that runs)"
    ) in large
    assert "access to anthropic.claude-haiku" in large
    # each of 1,000 streams every 150 ms
    for text, warm in ((small, "4,000"), (large, "7,000")):
        assert (
            "DynamoDB writes a second of a table: 6,667 (at most, into the buffer of responses; a "
            f"new table takes {warm} at once"
        ) in text
    assert "raise data.warm_writes_per_second" in small
    assert "raise data.warm_writes_per_second" not in large
    # 50 answers a second, a twentieth of them with 9 polls; 20 frames of 25 bytes a second each
    assert "CloudFront: 72 requests a second (a distribution has 250,000)" in large
    assert "and 0.004 Gbit/s (150)" in large
    assert "SageMaker ml.g6e.xlarge for endpoint usage: 2" in gpus


@pytest.mark.parametrize(
    ("model", "burndown"),
    [
        ("anthropic.claude-haiku-4-5-20251001-v1:0", 5),
        ("anthropic.claude-sonnet-4-20250514-v1:0", 5),
        ("anthropic.claude-opus-4-8", 5),
        ("anthropic.claude-3-7-sonnet-20250219-v1:0", 5),
        ("anthropic.claude-3-5-haiku-20241022-v1:0", 1),
        ("anthropic.claude-3-haiku-20240307-v1:0", 1),
        ("anthropic.claude-v2:1", 1),
        ("amazon.nova-lite-v1:0", 1),
    ],
)
def test_an_output_token_of_newer_claudes_takes_five_of_the_quota(
    model: str, burndown: int
) -> None:
    assert output_burndown(model) == burndown


def test_a_web_acl_is_counted_with_its_rules(prod: Synthesis, dev: Synthesis) -> None:
    (row,) = (row for row in _rows(prod) if row.what.startswith("WAF"))
    assert row.month_at_rest == 5 + 6 * 1
    assert not [row for row in _rows(dev) if row.what.startswith("WAF")]


def test_the_announcement_says_who_may_come_in_and_that_nobody_hears_alarms(
    dev: Synthesis, prod: Synthesis
) -> None:
    small, large = (announcement(s.settings, s.templates, Traffic()) for s in (dev, prod))
    assert "NOTE: anybody may open a session" in small
    assert "anybody may" not in large
    assert "NOTE: alarms page nobody" in small
    assert "NOTE: one address can keep others" in small
    assert "NOTE" not in large
