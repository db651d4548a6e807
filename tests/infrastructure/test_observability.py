"""Alarms, their topics and the dashboard, as the template has them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.observability_settings import AlarmSettings
from evenflow.stream_core.metrics.canary_metrics import CANARY_METRICS
from evenflow.stream_core.metrics.metric_catalogue import (
    BURN_RATES,
    CATALOGUE,
    PROMISES,
    PUBLISHED,
    BurnRate,
    Metric,
    Promise,
    Statistic,
    Urgency,
)
from tests.infrastructure.cfn_lint import findings
from tests.infrastructure.metric_math import MetricMath, Series
from tests.infrastructure.own_stacks import Template, observability_template, resources
from tests.integration.alarm_evaluation import is_raised, rule_of, selections

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
ON_THE_DASHBOARD = {metric.name for metric in PUBLISHED}
NAMES = {metric.name for metric in (*CATALOGUE, *CANARY_METRICS)}
WITH_ALARM = [metric for metric in CATALOGUE if metric.alarm is not None]
PLAIN = [metric for metric in WITH_ALARM if metric.alarm and not metric.alarm.sudden_drop]
DROPS = [metric for metric in WITH_ALARM if metric.alarm and metric.alarm.sudden_drop]
PERCENTILES = [
    metric
    for metric in PLAIN
    if metric.alarm and metric.alarm.statistic in (Statistic.P95, Statistic.P99)
]
FELT = {
    metric.name for metric in WITH_ALARM if metric.alarm and metric.alarm.urgency is Urgency.FELT
}
# What readers feel besides the catalogue.
FELT_TOO = {
    "load_balancer.handler_errors",
    "load_balancer.own_errors",
    "http_api.errors",
    "canary.failures",
}
CAN_WAIT = {
    "queue.exchange_failures",
    "upstream.throttles",
    "ws.backpressure_drops",
    "fallback.poll_count_per_response",
    "canary.first_text_ms",
    "store.retries",
    "dead_letters.waiting",
    "session_init.duration_ms",
    "rotate_signing_keys.errors",
    "usage_file.errors",
    "firewall.blocked_requests",
}
WINDOWS = {
    f"burn.{promise.name}-{minutes}-minutes"
    for promise in PROMISES
    for rate in BURN_RATES
    for minutes in (rate.long_minutes, rate.short_minutes)
}
# A drop within a minute is recorded, its five-minute copy is felt.
RECORDED = {metric.name for metric in DROPS}
FELT_DROPS = {f"{metric.name}-5-minutes" for metric in DROPS}
PREFIX = "evenflow-prod-"


@pytest.fixture(scope="module")
def settings() -> EnvironmentSettings:
    return environment("prod").model_copy(
        update={"alarms": AlarmSettings(page_email="on-call@example.com")}
    )


@pytest.fixture(scope="module")
def template(settings: EnvironmentSettings) -> Template:
    return observability_template(settings)


@pytest.fixture(scope="module")
def alarms(template: Template) -> dict[str, Any]:
    """By what stands behind the environment's prefix."""
    found = resources(template, "AWS::CloudWatch::Alarm").values()
    assert all(alarm["AlarmName"].startswith(PREFIX) for alarm in found)
    return {alarm["AlarmName"].removeprefix(PREFIX): alarm for alarm in found}


@pytest.fixture(scope="module")
def composite(template: Template) -> Any:
    """The one that says that users are hurting."""
    [alarm] = (
        alarm for alarm in _composites(template) if alarm["AlarmName"].endswith("users-are-hurting")
    )
    return alarm


def _composites(template: Template) -> list[Any]:
    return list(resources(template, "AWS::CloudWatch::CompositeAlarm").values())


@pytest.fixture(scope="module")
def widgets(template: Template) -> list[Any]:
    [board] = resources(template, "AWS::CloudWatch::Dashboard").values()
    _, parts = board["DashboardBody"]["Fn::Join"]
    found: list[Any] = json.loads(
        "".join(part if isinstance(part, str) else _name_of(part) for part in parts)
    )["widgets"]
    return found


@pytest.fixture(scope="module")
def source() -> str:
    """Of everything that writes a log in AWS."""
    root = RUNBOOKS.parents[1]
    places = ("fargate_handler", "stream_aws", "functions")
    return "".join(
        path.read_text("utf-8") for place in places for path in (root / place).rglob("*.py")
    )


def _name_of(reference: dict[str, Any]) -> str:
    return str(reference["Fn::GetAtt"][0] if "Fn::GetAtt" in reference else reference["Ref"])


def _topic(template: Template, name: str) -> dict[str, str]:
    [logical_id] = [
        logical_id
        for logical_id, topic in resources(template, "AWS::SNS::Topic").items()
        if topic["TopicName"] == PREFIX + name
    ]
    return {"Ref": logical_id}


def _selected(alarm: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every metric that an alarm reads, in the shape of MetricStat."""
    if "MetricName" in alarm:
        yield {
            "Metric": {key: alarm[key] for key in ("Namespace", "MetricName", "Dimensions")},
            **alarm,
        }
    yield from (query["MetricStat"] for query in alarm.get("Metrics", ()) if "MetricStat" in query)


class TestCatalogue:
    @pytest.mark.parametrize("metric", PLAIN, ids=lambda metric: str(metric.name))
    def test_an_alarm_is_what_its_row_says(self, metric: Metric, alarms: dict[str, Any]) -> None:
        row, alarm = metric.alarm, alarms[metric.name]
        assert row is not None
        cases = ["SampleCount"] if row.least else []
        series = list(_selected(alarm))
        for each in series:
            named = each["Metric"]
            assert (named["Namespace"], named["MetricName"]) == ("Evenflow", metric.name)
            assert named["Dimensions"] == [{"Name": "Environment", "Value": "evenflow-prod"}]
            assert each["Period"] == 60
        statistics = [
            each.get("Stat") or each.get("ExtendedStatistic") or each["Statistic"]
            for each in series
        ]
        assert sorted(statistics) == sorted([row.statistic, *cases])
        assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (
            row.above,
            "GreaterThanThreshold",
        )
        assert (alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]) == (
            row.datapoints,
            row.minutes,
        )
        assert alarm["TreatMissingData"] == ("breaching" if row.silence_is_bad else "notBreaching")
        # `ignore` would leave the alarm as it is while there are fewer than 200 values.
        assert "EvaluateLowSampleCountPercentile" not in alarm

    @pytest.mark.parametrize("metric", DROPS, ids=lambda metric: str(metric.name))
    @pytest.mark.parametrize(("copy", "period"), [("", 60), ("-5-minutes", 300)])
    def test_a_drop_is_looked_for_over_one_minute_and_over_five(
        self, metric: Metric, copy: str, period: int, alarms: dict[str, Any]
    ) -> None:
        row, alarm = metric.alarm, alarms[metric.name + copy]
        assert row is not None
        [stat] = _selected(alarm)
        assert (stat["Period"], stat["Stat"]) == (period, "Sum")
        assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (
            row.above,
            "GreaterThanThreshold",
        )
        assert (alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]) == (
            row.datapoints,
            row.minutes,
        )
        assert alarm["TreatMissingData"] == "breaching"

    @pytest.mark.parametrize("metric", PERCENTILES, ids=lambda metric: str(metric.name))
    def test_a_percentile_of_a_single_value_a_minute_raises_and_silence_ends_it(
        self, metric: Metric, alarms: dict[str, Any]
    ) -> None:
        row, alarm = metric.alarm, alarms[metric.name]
        assert row is not None
        slow = [2 * row.above] * row.datapoints
        before: Series = [None] * (row.minutes - row.datapoints)
        assert is_raised(alarm, {"": [*before, *slow]})
        assert not is_raised(alarm, {"": [None, *before, *slow[1:]]})
        assert not is_raised(alarm, {"": [*slow, *[None] * row.minutes]})

    def test_every_row_with_an_alarm_has_one(self, alarms: dict[str, Any]) -> None:
        assert {metric.name for metric in WITH_ALARM} <= set(alarms)

    def test_what_is_selected_of_ours_is_in_the_catalogue_with_its_one_dimension(
        self, alarms: dict[str, Any]
    ) -> None:
        ours = [
            stat["Metric"]
            for alarm in alarms.values()
            for stat in _selected(alarm)
            if stat["Metric"]["Namespace"] == "Evenflow"
        ]
        assert len(ours) >= len(WITH_ALARM)
        assert {metric["MetricName"] for metric in ours} <= NAMES
        assert all(
            metric["Dimensions"] == [{"Name": "Environment", "Value": "evenflow-prod"}]
            for metric in ours
        )

    def test_no_alarm_selects_by_unit(self, alarms: dict[str, Any]) -> None:
        assert [
            name for name, alarm in alarms.items() for stat in _selected(alarm) if "Unit" in stat
        ] == []


class TestSuddenDrop:
    """In both readings of what CloudWatch's documentation leaves open."""

    pytestmark = pytest.mark.parametrize("cautious", [False, True])

    @staticmethod
    def raised(alarm: dict[str, Any], series: Series, *, cautious: bool) -> list[bool]:
        [name] = selections(alarm)
        percents = MetricMath(alarm["Metrics"], {name: series}, cautious).result()
        missing = alarm["TreatMissingData"] == "breaching"
        return [
            missing if percent is None else percent > alarm["Threshold"] for percent in percents
        ]

    @pytest.mark.parametrize(
        ("series", "expected"),
        [
            pytest.param([10_000, 10_100, 9_900, 10_000], [False] * 3, id="steady"),
            pytest.param([10_000, 4_000, 4_000], [True, False], id="60 percent lost in a minute"),
            pytest.param([10_000, 5_000], [False], id="exactly half"),
            pytest.param([10_000, 4_999], [True], id="more than half"),
            pytest.param([10_000, 0], [True], id="everything"),
            pytest.param([1_001, 400], [True], id="just enough traffic"),
            pytest.param([1_000, 90, 0], [False, False], id="low traffic"),
            pytest.param([0, 0, 0], [False, False], id="an idle night"),
            pytest.param([0, 5000, 5000], [False, False], id="a rise"),
            pytest.param(
                [10_000, None, 3_000], [True, True], id="a drop behind a minute without data"
            ),
            pytest.param(
                [10_000, 8_500, 7_200, 6_100, 5_200], [False] * 4, id="15 percent a minute"
            ),
        ],
    )
    def test_within_a_minute(
        self, series: Series, expected: list[bool], cautious: bool, alarms: dict[str, Any]
    ) -> None:
        # Its first datapoint has none before it.
        assert (
            self.raised(alarms["ws.messages_per_second"], series, cautious=cautious)[1:] == expected
        )

    def test_behind_a_minute_without_data(self, cautious: bool, alarms: dict[str, Any]) -> None:
        raised = self.raised(
            alarms["ws.messages_per_second"], [10_000, None, 9_900, 9_800], cautious=cautious
        )
        assert raised[1:] == [True, cautious, False]

    def test_at_start_up(self, cautious: bool, alarms: dict[str, Any]) -> None:
        # Nothing runs, then the first minute, which has nothing to be compared with; from the
        # second one on all is well.
        raised = self.raised(
            alarms["ws.messages_per_second"], [None, 3_000, 3_100, 3_000], cautious=cautious
        )
        assert raised == [True, True, False, False]

    @pytest.mark.parametrize(
        ("series", "expected"),
        [
            # Sums of five minutes of 10,000, 8,500, 7,200 … frames a second, 15 percent less each
            # minute.
            pytest.param([50_000, 37_000, 16_400], [False, True], id="15 percent a minute"),
            pytest.param([50_000, 49_000, 51_000], [False, False], id="steady"),
            pytest.param([5_000, 400, 0], [False, False], id="low traffic"),
        ],
    )
    def test_within_five_minutes(
        self, series: Series, expected: list[bool], cautious: bool, alarms: dict[str, Any]
    ) -> None:
        assert (
            self.raised(alarms["ws.messages_per_second-5-minutes"], series, cautious=cautious)[1:]
            == expected
        )


class TestBurnRates:
    """The windows of a promise, each an alarm, and what wakes somebody."""

    pytestmark = pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: str(promise.name))

    @pytest.mark.parametrize("rate", BURN_RATES, ids=str)
    def test_a_window_is_above_its_threshold(
        self, promise: Promise, rate: BurnRate, alarms: dict[str, Any]
    ) -> None:
        allowed = rate.times * promise.allowed
        enough = promise.least * rate.long_minutes // 60
        long = alarms[f"burn.{promise.name}-{rate.long_minutes}-minutes"]
        short = alarms[f"burn.{promise.name}-{rate.short_minutes}-minutes"]
        assert {(s.name, s.period) for s in selections(long).values()} == {
            (promise.metric.name, 60 * rate.long_minutes)
        }
        assert {(s.name, s.period) for s in selections(short).values()} == {
            (promise.metric.name, 60 * rate.short_minutes)
        }
        assert is_raised(long, {"cases": [enough], "share": [allowed + 0.1]})
        assert not is_raised(long, {"cases": [enough], "share": [allowed]})
        assert not is_raised(long, {"cases": [enough - 1], "share": [100.0]}), "a few are no share"
        assert not is_raised(long, {"cases": [None], "share": [None]})
        assert is_raised(short, {"": [allowed + 0.1]})
        assert not is_raised(short, {"": [None]})

    def test_somebody_is_woken_while_both_windows_of_a_rate_are_raised(
        self, promise: Promise, template: Template
    ) -> None:
        burning = f"{PREFIX}burn.{promise.name}"
        rule = rule_of(template["Resources"], burning)
        pairs = [
            {f"{burning}-{minutes}-minutes" for minutes in pair}
            for pair in ((rate.long_minutes, rate.short_minutes) for rate in BURN_RATES)
        ]
        for pair in pairs:
            assert rule(pair)
            for window in pair:
                assert not rule({window})
        assert not rule({f"{burning}-60-minutes", f"{burning}-30-minutes"})


class TestDeadLetters:
    def test_a_single_one_raises_until_the_queue_is_empty(self, alarms: dict[str, Any]) -> None:
        alarm = alarms["dead_letters.waiting"]
        assert (alarm["Namespace"], alarm["MetricName"]) == (
            "AWS/SQS",
            "ApproximateNumberOfMessagesVisible",
        )
        assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": f"{PREFIX}dead-letters"}]
        assert is_raised(alarm, {"": [0, 1]})
        assert is_raised(alarm, {"": [1, 1]})
        assert not is_raised(alarm, {"": [1, 0]})
        assert not is_raised(alarm, {"": [0, None]})


class TestWhoIsTold:
    def test_every_change_of_every_alarm_is_recorded(
        self, template: Template, alarms: dict[str, Any]
    ) -> None:
        notices = _topic(template, "notices")
        for alarm in (*alarms.values(), *_composites(template)):
            assert notices in alarm["AlarmActions"]
            assert notices in alarm["OKActions"]

    def test_somebody_is_woken_by_the_composite_and_by_what_it_cannot_see(
        self, template: Template, alarms: dict[str, Any], composite: Any
    ) -> None:
        pages = _topic(template, "pages")
        felt = FELT - RECORDED | FELT_TOO | FELT_DROPS
        for wakes in _composites(template):
            assert pages in wakes["AlarmActions"]
        paging = {name for name, alarm in alarms.items() if pages in alarm["AlarmActions"]}
        assert paging == set(alarms) - felt - CAN_WAIT - RECORDED - WINDOWS
        assert {"ws.active_connections", "queue.depth", "service.healthy_tasks"} <= paging

    def test_the_composite_is_raised_by_each_alarm_that_readers_feel_and_by_no_other(
        self, template: Template, composite: Any
    ) -> None:
        name_of = {
            logical_id: alarm["AlarmName"].removeprefix(PREFIX)
            for logical_id, alarm in resources(template, "AWS::CloudWatch::Alarm").items()
        }
        _, parts = composite["AlarmRule"]["Fn::Join"]
        text = "".join(part for part in parts if isinstance(part, str))
        assert set(re.findall(r"[A-Z]+", text)) == {"ALARM", "OR"}
        named = [name_of[_name_of(part)] for part in parts if not isinstance(part, str)]
        assert sorted(named) == sorted(FELT - RECORDED | FELT_TOO | FELT_DROPS)

    def test_topics_are_encrypted_with_a_key_that_alarms_may_use(self, template: Template) -> None:
        [(key_id, key)] = resources(template, "AWS::KMS::Key").items()
        topics = resources(template, "AWS::SNS::Topic").values()
        assert len(topics) == 2
        assert all(topic["KmsMasterKeyId"] == {"Fn::GetAtt": [key_id, "Arn"]} for topic in topics)
        assert key["EnableKeyRotation"] is True
        [statement] = [
            s
            for s in key["KeyPolicy"]["Statement"]
            if s["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
        ]
        assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]
        assert statement["Condition"]["StringEquals"] == {
            "aws:SourceAccount": {"Ref": "AWS::AccountId"}
        }

    def test_only_alarms_of_this_environment_publish_and_only_over_tls(
        self, template: Template
    ) -> None:
        policies = resources(template, "AWS::SNS::TopicPolicy").values()
        assert len(policies) == 2
        for policy in policies:
            statements = policy["PolicyDocument"]["Statement"]
            [deny] = [s for s in statements if s["Effect"] == "Deny"]
            assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
            [allow] = [s for s in statements if s["Effect"] == "Allow"]
            assert allow["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
            assert "alarm:evenflow-prod-*" in json.dumps(allow["Condition"]["ArnLike"])

    @pytest.mark.parametrize("notice_email", [None, "team@example.com"])
    def test_notices_go_to_the_pager_if_no_other_address_is_set(
        self, notice_email: str | None, settings: EnvironmentSettings
    ) -> None:
        pager = "on-call@example.com"
        alarms = AlarmSettings(page_email=pager, notice_email=notice_email)
        template = observability_template(settings.model_copy(update={"alarms": alarms}))
        subscribed = {
            json.dumps(each["TopicArn"]): (each["Protocol"], each["Endpoint"])
            for each in resources(template, "AWS::SNS::Subscription").values()
        }
        assert subscribed == {
            json.dumps(_topic(template, "pages")): ("email", pager),
            json.dumps(_topic(template, "notices")): ("email", notice_email or pager),
        }

    def test_a_topic_of_ones_own_is_paged_instead(self, settings: EnvironmentSettings) -> None:
        own = "arn:aws:sns:us-east-1:111111111111:on-call"
        template = observability_template(
            settings.model_copy(update={"alarms": AlarmSettings(page_topic_arn=own)})
        )
        for composite in resources(template, "AWS::CloudWatch::CompositeAlarm").values():
            assert own in composite["AlarmActions"]
        topics = resources(template, "AWS::SNS::Topic").values()
        assert [topic["TopicName"] for topic in topics] == [f"{PREFIX}notices"]


class TestRunbooks:
    def test_every_alarm_says_what_it_means_and_the_first_step_of_a_runbook_that_exists(
        self, alarms: dict[str, Any], template: Template
    ) -> None:
        for alarm in (*alarms.values(), *_composites(template)):
            description = alarm["AlarmDescription"]
            assert len(description) <= 1024  # CloudWatch's limit
            found = re.search(
                r"Look first: (.{20,}[^.:?][.?]) Then: docs/runbooks/(.+)$", description
            )
            assert found, alarm["AlarmName"]
            page = " ".join((RUNBOOKS / found[2]).read_text("utf-8").split())
            assert found[1][:20] in page.partition("## Look first ")[2]

    def test_where_runbooks_can_be_opened_every_alarm_links_its_own(
        self, settings: EnvironmentSettings
    ) -> None:
        base = "https://wiki.example.com/runbooks/"
        linked = settings.model_copy(update={"alarms": AlarmSettings(runbook_base_url=base)})
        template = observability_template(linked)
        for kind in ("Alarm", "CompositeAlarm"):
            for alarm in resources(template, f"AWS::CloudWatch::{kind}").values():
                _, _, page = alarm["AlarmDescription"].partition(f"What to do: {base}")
                assert (RUNBOOKS / page).is_file(), alarm["AlarmName"]

    def test_every_alarm_says_what_silence_means(self, alarms: dict[str, Any]) -> None:
        for alarm in alarms.values():
            bad = "it counts as crossing the threshold" in alarm["AlarmDescription"]
            assert bad == (alarm["TreatMissingData"] == "breaching")

    @pytest.mark.parametrize("metric", WITH_ALARM, ids=lambda metric: str(metric.name))
    def test_an_alarm_of_the_catalogue_is_described_in_its_words(
        self, metric: Metric, alarms: dict[str, Any]
    ) -> None:
        description = alarms[metric.name]["AlarmDescription"]
        assert metric.alarm is not None
        for words in (metric.meaning[1:], metric.target, metric.alarm.text, metric.alarm.silence):
            assert words in description

    def test_every_page_stands_in_the_index(self) -> None:
        pages = {path.name for path in RUNBOOKS.glob("*.md")} - {"README.md"}
        assert (
            set(re.findall(r"\]\(([^)/]+\.md)\)", (RUNBOOKS / "README.md").read_text("utf-8")))
            == pages
        )

    def test_the_page_of_an_alarm_has_the_parts_that_one_looks_for_at_night(
        self, alarms: dict[str, Any], template: Template
    ) -> None:
        for alarm in (*alarms.values(), *_composites(template)):
            page = (RUNBOOKS / alarm["AlarmDescription"].rpartition("/")[2]).read_text("utf-8")
            headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
            assert headings == [
                "What readers feel",
                "Look first",
                "Likely causes, and what to do",
                "It is over when",
            ]

    @pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda page: str(page.name))
    def test_a_runbook_names_metrics_that_exist(self, page: Path) -> None:
        groups = "|".join(sorted({name.split(".")[0] for name in NAMES}))
        named = set(re.findall(rf"`((?:{groups})\.[a-z_]+)`", page.read_text("utf-8")))
        assert named <= NAMES

    @pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda page: str(page.name))
    def test_a_log_query_looks_for_what_the_code_says(self, page: Path, source: str) -> None:
        asked = re.findall(r'like "([^"]+)"', page.read_text("utf-8"))
        assert [words for words in asked if words not in source] == []


class TestDashboard:
    @staticmethod
    def metrics_of(widget: Any) -> Iterator[tuple[str, str]]:
        """(namespace, name) of each metric; math has none."""
        yield from (
            (row[0], row[1])
            for row in widget["properties"].get("metrics", ())
            if isinstance(row[0], str)
        )

    def test_every_metric_of_the_catalogue_has_one_graph_and_nothing_else_of_ours_has(
        self, widgets: list[Any]
    ) -> None:
        ours = [
            next(name for namespace, name in self.metrics_of(widget) if namespace == "Evenflow")
            for widget in widgets
            if any(namespace == "Evenflow" for namespace, _ in self.metrics_of(widget))
        ]
        assert sorted(ours) == sorted(ON_THE_DASHBOARD)

    @pytest.mark.parametrize("metric", WITH_ALARM, ids=lambda metric: str(metric.name))
    def test_the_threshold_is_drawn_and_the_statistic_that_it_is_for(
        self, metric: Metric, widgets: list[Any]
    ) -> None:
        [graph] = [
            widget for widget in widgets if ("Evenflow", metric.name) in self.metrics_of(widget)
        ]
        assert metric.alarm is not None
        [line] = graph["properties"]["annotations"]["horizontal"]
        assert line["value"] == metric.alarm.above
        drawn = {
            row[-1].get("stat", "Average")
            for row in graph["properties"]["metrics"]
            if row[0] == "Evenflow"
        }
        assert metric.alarm.statistic in drawn

    def test_the_state_of_every_alarm_is_on_top(
        self, template: Template, widgets: list[Any]
    ) -> None:
        everything = {
            *resources(template, "AWS::CloudWatch::Alarm"),
            *resources(template, "AWS::CloudWatch::CompositeAlarm"),
        }
        assert (widgets[0]["type"], widgets[0]["y"]) == ("alarm", 0)
        assert set(widgets[0]["properties"]["alarms"]) == everything

    def test_what_aws_measures_is_there(self, widgets: list[Any]) -> None:
        namespaces = {namespace for widget in widgets for namespace, _ in self.metrics_of(widget)}
        assert {
            "AWS/ApplicationELB",
            "AWS/ECS",
            "AWS/DynamoDB",
            "AWS/SQS",
            "AWS/Lambda",
            "AWS/ApiGateway",
        } <= namespaces


class TestTheMonthlyBudget:
    def test_it_counts_this_environment_alone_and_notices_are_told(
        self, settings: EnvironmentSettings
    ) -> None:
        template = _with_budget(settings, page_email="on-call@example.com")
        [(_, budget)] = resources(template, "AWS::Budgets::Budget").items()
        data = budget["Budget"]
        assert data["BudgetLimit"] == {"Amount": 500, "Unit": "USD"}
        assert (data["BudgetType"], data["TimeUnit"]) == ("COST", "MONTHLY")
        tags = [each["Tags"] for each in data["FilterExpression"]["And"]]
        assert [(each["Key"], each["Values"]) for each in tags] == [
            ("environment", ["prod"]),
            ("installation", ["evenflow"]),
        ]
        for notice in budget["NotificationsWithSubscribers"]:
            assert [each["Address"] for each in notice["Subscribers"]] == [
                _topic(template, "notices")
            ]

    def test_budgets_may_publish_notices_with_the_topics_key_and_page_nobody(
        self, settings: EnvironmentSettings
    ) -> None:
        template = _with_budget(settings, notice_email="team@example.com", nobody_is_paged=True)
        [(_, budget)] = resources(template, "AWS::Budgets::Budget").items()
        subscribers = [each["Subscribers"] for each in budget["NotificationsWithSubscribers"]]
        assert [[each["SubscriptionType"] for each in group] for group in subscribers] == [
            ["SNS"],
            ["SNS"],
        ]
        allowed = [
            (kind, statement["Action"])
            for kind, document in (
                ("AWS::SNS::TopicPolicy", "PolicyDocument"),
                ("AWS::KMS::Key", "KeyPolicy"),
            )
            for each in resources(template, kind).values()
            for statement in each[document]["Statement"]
            if statement["Principal"] == {"Service": "budgets.amazonaws.com"}
        ]
        assert allowed == [
            ("AWS::SNS::TopicPolicy", "sns:Publish"),
            ("AWS::KMS::Key", ["kms:Decrypt", "kms:GenerateDataKey*"]),
        ]
        assert findings(template) == []

    def test_without_the_setting_there_is_none(self, template: Template) -> None:
        assert not resources(template, "AWS::Budgets::Budget")
        assert "budgets.amazonaws.com" not in json.dumps(template)

    def test_one_of_which_nobody_hears_is_refused(self) -> None:
        own = "arn:aws:sns:us-east-1:111111111111:on-call"
        with pytest.raises(
            ValidationError, match="needs an address for its notices: set notice_email"
        ):
            AlarmSettings(monthly_budget_dollars=500, page_topic_arn=own)


def _with_budget(settings: EnvironmentSettings, **alarms: Any) -> Template:
    chosen = AlarmSettings(monthly_budget_dollars=500, **alarms)
    return observability_template(settings.model_copy(update={"alarms": chosen}))
