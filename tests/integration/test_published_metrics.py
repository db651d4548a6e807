"""No alarm watches nothing: what is published, read back from CloudWatch the way the synthesized
alarms select it.

`published_minutes` publishes and reads, `alarm_evaluation` evaluates. The emulator is ministack's;
what it and moto's skip is named in `cloudwatch_emulator`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from evenflow.fargate_handler.adapters import memory_stores
from evenflow.fargate_handler.cluster import ClusterMember
from evenflow.fargate_handler.orchestrator.agent_settings import AgentSettings
from evenflow.fargate_handler.orchestrator.dispatcher import ServedModel
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.fargate_handler.token_sources.openai import OpenAIModel
from evenflow.stream_aws.metric_publication import cloudwatch_unit
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.metric_catalogue import (
    CATALOGUE,
    PROMISES,
    PUBLISHED,
    Metric,
    MetricKind,
    Promise,
)
from tests.integration import synthesized_alarms
from tests.integration.alarm_evaluation import Selection, selections
from tests.integration.burn_window import HOURS, begin_of_hours, is_burning
from tests.integration.published_minutes import (
    FROM_FUNCTIONS,
    PREFIX,
    WINDOW_MINUTES,
    Alarms,
    HandlerTask,
    Service,
    published,
)
from tests.integration.scripted_model import Reply, scripted_model
from tests.integration.server_process import free_port
from tests.unit.fargate_handler.orchestrator.peer_network import PeerNetwork
from tests.unit.hand_turned_clock import HandTurnedClock

LEVEL = catalogue.ACTIVE_CONNECTIONS
WATCHED = [metric for metric in CATALOGUE if metric.alarm]


@pytest.fixture(scope="module")
def all_alarms() -> Alarms:
    """Those of all stacks on minutes of our own metrics, also those of autoscaling."""
    return synthesized_alarms.of_minutes()


@pytest.fixture(scope="module")
def alarms() -> Alarms:
    """Those that tell somebody."""
    return synthesized_alarms.that_tell_somebody()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with published() as service:
        yield service


# -- every metric ----------------------------------------------------------------------------------


async def publish_everything(service: Service, task: HandlerTask) -> None:
    """One minute in which everything that there is to measure happened."""
    for metric in CATALOGUE:
        if metric in FROM_FUNCTIONS:
            await service.poll(metric, [1.0], minute=0)
        elif metric.kind is MetricKind.DISTRIBUTION:
            task.metrics.distribution(metric).record(1.0)
        elif metric.kind is MetricKind.RATIO:
            task.metrics.ratio(metric).whole = 10
    await service.publish(task, minute=0)


async def test_every_metric_of_the_catalogue_is_published_with_its_unit_and_the_one_dimension(
    service: Service,
) -> None:
    await publish_everything(service, HandlerTask())
    stored = (await service.client.list_metrics(Namespace="Evenflow"))["Metrics"]
    dimensions = [{"Name": "Environment", "Value": PREFIX}]
    assert sorted(metric["MetricName"] for metric in stored) == sorted(
        metric.name for metric in PUBLISHED
    )
    assert all(metric["Dimensions"] == dimensions for metric in stored)
    for metric in PUBLISHED:
        selection = Selection(
            "Evenflow", metric.name, (("Environment", PREFIX),), "SampleCount", 60, None
        )
        assert await service.units(selection) == {cloudwatch_unit(metric.unit)}, metric.name
        assert (await service.series(selection))[0], metric.name


async def test_every_alarm_selects_something_that_is_published(
    service: Service, all_alarms: Alarms
) -> None:
    await publish_everything(service, HandlerTask())
    stored = {
        (
            metric["MetricName"],
            tuple((dimension["Name"], dimension["Value"]) for dimension in metric["Dimensions"]),
        )
        for metric in (await service.client.list_metrics(Namespace="Evenflow"))["Metrics"]
    }
    selected = {
        (name, selection)
        for name, alarm in all_alarms.items()
        for selection in selections(alarm).values()
        if selection.namespace == "Evenflow"
    }
    for name, selection in selected:
        assert (selection.name, selection.dimensions) in stored, f"{name} watches nothing"
        units = await service.units(selection)
        assert len(units) == 1, f"{name}: a second unit would be a second metric"
        assert selection.unit is None or {selection.unit} == units, f"{name} watches another unit"
        assert (await service.series(selection))[0] is not None, (
            f"{name}: {selection.statistic} has no value"
        )
    assert {metric.name for metric in WATCHED} <= {selection.name for _, selection in selected}
    by_load = {
        (name, selection.statistic)
        for name, selection in selected
        if selection.name == catalogue.NODE_LOAD.name
    }
    assert [statistic for _, statistic in by_load] == ["Average"] * 3, "tracking, surge, alarm"


@pytest.mark.parametrize("metric", WATCHED, ids=lambda metric: str(metric.name))
def test_the_alarm_has_the_catalogue_s_statistic_threshold_and_patience(
    metric: Metric, alarms: Alarms
) -> None:
    assert metric.alarm is not None
    alarm = alarms[f"{PREFIX}-{metric.name}"]
    cases = {"SampleCount"} if metric.alarm.least else set[str]()
    assert {selection.statistic for selection in selections(alarm).values()} == {
        metric.alarm.statistic,
        *cases,
    }
    assert (alarm["Threshold"], alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]) == (
        threshold_of(metric),
        metric.alarm.datapoints,
        metric.alarm.minutes,
    )


# -- every alarm -----------------------------------------------------------------------------------


def threshold_of(metric: Metric) -> float:
    """In `dev`, where a task takes 4,000 connections."""
    assert metric.alarm is not None
    return 3_800 if metric is catalogue.ACTIVE_CONNECTIONS else metric.alarm.above


def measured(metric: Metric, breaching: bool) -> list[float]:
    """Values of which 8 %, or too few, are above the threshold of a percentile; one value of an
    average.
    """
    assert metric.alarm is not None
    above = metric.alarm.above
    if metric.alarm.statistic is catalogue.Statistic.AVERAGE:
        return [above + breaching]
    if breaching:
        return [above] * 46 + [above * 1.01] * 4
    most = 48 if metric.alarm.statistic is catalogue.Statistic.P95 else 400
    return [above] * most + [above * 10] * 2


def happen(task: HandlerTask, metric: Metric, breaching: bool) -> None:
    """A minute at the threshold, or just above it."""
    above = threshold_of(metric)
    match metric.kind:
        case MetricKind.DISTRIBUTION:
            for value in measured(metric, breaching):
                task.metrics.distribution(metric).record(value)
        case MetricKind.RATIO:
            task.metrics.ratio(metric).whole += 1_000_000
            task.metrics.ratio(metric).part += int(above * 10_000) + breaching
        case MetricKind.COUNTER:
            task.metrics.counter(metric).value += int(above) + breaching
        case MetricKind.GAUGE:
            task.levels[metric.name] = above + breaching


async def minutes_of(service: Service, metric: Metric, breaching_minutes: int) -> None:
    """A window of which the last minutes are breaching."""
    task = HandlerTask()
    for minute in range(WINDOW_MINUTES):
        breaching = minute >= WINDOW_MINUTES - breaching_minutes
        if metric in FROM_FUNCTIONS:
            await service.poll(metric, measured(metric, breaching), minute)
        else:
            happen(task, metric, breaching)
        await service.publish(task, minute)


STEADY = [metric for metric in WATCHED if metric.alarm and not metric.alarm.sudden_drop]


@pytest.mark.parametrize("metric", STEADY, ids=lambda metric: str(metric.name))
async def test_an_alarm_is_raised_just_above_its_threshold(
    metric: Metric, service: Service, alarms: Alarms
) -> None:
    assert metric.alarm is not None
    await minutes_of(service, metric, breaching_minutes=metric.alarm.datapoints)
    assert await service.raised(alarms) == {f"{PREFIX}-{metric.name}"}


@pytest.mark.parametrize("metric", STEADY, ids=lambda metric: str(metric.name))
async def test_an_alarm_waits_for_its_datapoints(
    metric: Metric, service: Service, alarms: Alarms
) -> None:
    """Where one is enough, these are minutes at the threshold."""
    assert metric.alarm is not None
    await minutes_of(service, metric, breaching_minutes=metric.alarm.datapoints - 1)
    assert await service.raised(alarms) == set()


FEW = [metric for metric in STEADY if metric.alarm and metric.alarm.least]


@pytest.mark.parametrize("metric", FEW, ids=lambda metric: str(metric.name))
@pytest.mark.parametrize("missing", [0, 1])
async def test_a_ratio_of_too_few_cases_raises_no_alarm(
    metric: Metric, missing: int, service: Service, alarms: Alarms
) -> None:
    assert metric.alarm is not None
    task = HandlerTask()
    for minute in range(WINDOW_MINUTES):
        ratio = task.metrics.ratio(metric)
        ratio.whole += metric.alarm.least - missing
        ratio.part += metric.alarm.least - missing
        await service.publish(task, minute)
    expected = set() if missing else {f"{PREFIX}-{metric.name}"}
    assert await service.raised(alarms) == expected


# -- the drop --------------------------------------------------------------------------------------

A_MINUTE = f"{PREFIX}-{catalogue.MESSAGES_PER_SECOND.name}"
FIVE_MINUTES = f"{A_MINUTE}-5-minutes"


async def frames(service: Service, tasks: Callable[[int], Sequence[int]]) -> None:
    """A window in which `tasks(minute)` says how many frames a second each task sends."""
    running = [HandlerTask() for _ in tasks(0)]
    for minute in range(WINDOW_MINUTES):
        for task, per_second in zip(running, tasks(minute), strict=True):
            task.metrics.frames_sent.value += 60 * per_second
            await service.publish(task, minute)


@pytest.mark.parametrize(("last_five", "raised"), [(500, set()), (490, {FIVE_MINUTES})], ids=str)
async def test_half_the_frames_of_the_five_minutes_before(
    last_five: int, raised: set[str], service: Service, alarms: Alarms
) -> None:
    await frames(service, lambda minute: (1_000 if minute < 5 else last_five, 0))
    assert await service.raised(alarms) == raised


@pytest.mark.parametrize(("last", "raised"), [(500, set()), (499, {A_MINUTE})], ids=str)
async def test_half_the_frames_of_the_minute_before(
    last: int, raised: set[str], service: Service, alarms: Alarms
) -> None:
    await frames(
        service, lambda minute: (last // 2, last - last // 2) if minute == 9 else (500, 500)
    )
    assert await service.raised(alarms) == raised


async def test_frames_that_move_from_one_task_to_another_are_no_drop(
    service: Service, alarms: Alarms
) -> None:
    await frames(service, lambda minute: (1_000, 0) if minute < 9 else (0, 1_000))
    assert await service.raised(alarms) == set()


async def test_a_deployment_is_no_drop_and_pulls_no_average(
    service: Service, alarms: Alarms
) -> None:
    """A task leaves in the middle of a minute, and another has taken its place."""
    old, new = HandlerTask(), HandlerTask()
    old.levels[LEVEL.name] = 400.0
    for minute in range(WINDOW_MINUTES - 2):
        old.metrics.frames_sent.value += 60_000
        await service.publish(old, minute)
    old.metrics.frames_sent.value += 30_000
    old.levels[LEVEL.name] = 0.0
    await service.publish(old, WINDOW_MINUTES - 2, leaving=True)
    new.levels[LEVEL.name] = 400.0
    for minute, sent in ((WINDOW_MINUTES - 2, 30_000), (WINDOW_MINUTES - 1, 60_000)):
        new.metrics.frames_sent.value += sent
        await service.publish(new, minute)
    dimensions = (("Environment", PREFIX),)
    sums = Selection("Evenflow", catalogue.MESSAGES_PER_SECOND.name, dimensions, "Sum", 60, None)
    average = Selection("Evenflow", LEVEL.name, dimensions, "Average", 60, None)
    assert await service.series(sums) == [1_000.0] * WINDOW_MINUTES
    assert await service.series(average) == [400.0] * WINDOW_MINUTES
    assert await service.raised(alarms) == set()


# -- promises --------------------------------------------------------------------------------------

_STEP_MINUTES = 5


def break_promise(task: HandlerTask, promise: Promise, percent: float, cases: int) -> None:
    """So many cases, of which so many percent are what readers are promised to be spared."""
    bad = round(cases * percent / 100)
    if promise.metric is catalogue.UNEVEN_RATE:
        jitter = task.metrics.distribution(catalogue.DELIVERY_JITTER)
        jitter.record(catalogue.UNEVEN_MS, cases - bad)
        jitter.record(catalogue.UNEVEN_MS + 1.0, bad)
    else:
        task.metrics.ratio(promise.metric).whole += cases
        task.metrics.ratio(promise.metric).part += bad


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: str(promise.name))
@pytest.mark.parametrize(
    ("percent_at", "cases", "raised"),
    [
        pytest.param(lambda hour: 1, 10_000, False, id="as promised"),
        pytest.param(lambda hour: 4, 10_000, True, id="a little, all the time"),
        pytest.param(lambda hour: 20 if hour == 5 else 0, 10_000, True, id="a bad hour"),
        pytest.param(lambda hour: 20 if hour == 4 else 0, 10_000, False, id="a bad hour before"),
        pytest.param(lambda hour: 100, 1, False, id="too few to say"),
    ],
)
async def test_a_promise_that_is_broken_too_fast_wakes_somebody(
    promise: Promise,
    percent_at: Callable[[int], float],
    cases: int,
    raised: bool,
    service: Service,
) -> None:
    service.begins = begin_of_hours()
    task = HandlerTask()
    for minute in range(0, 60 * HOURS, _STEP_MINUTES):
        break_promise(task, promise, percent_at(minute // 60), cases)
        await service.publish(task, minute)
    assert await is_burning(service, promise.name) is raised


# -- quiet, silent, and many tasks -----------------------------------------------------------------


async def test_an_idle_service_raises_nothing(service: Service, alarms: Alarms) -> None:
    await frames(service, lambda _: (0, 0))
    assert await service.raised(alarms) == set()


async def test_silence_raises_what_cannot_tell_it_from_the_worst(
    service: Service, alarms: Alarms
) -> None:
    silent = {
        f"{PREFIX}-{metric.name}"
        for metric in WATCHED
        if metric.alarm and metric.alarm.silence_is_bad
    }
    raised = await service.raised(alarms)
    assert raised & {f"{PREFIX}-{metric.name}" for metric in WATCHED} == silent


async def test_a_ratio_is_of_the_whole_environment_not_a_mean_of_its_tasks(
    service: Service,
) -> None:
    small, big = HandlerTask(), HandlerTask()
    small.metrics.ratio(catalogue.LATE_DELTAS).part = small.metrics.ratio(
        catalogue.LATE_DELTAS
    ).whole = 10
    big.metrics.ratio(catalogue.LATE_DELTAS).whole = 5_999_990
    for task in (small, big):
        await service.publish(task, 0)
    selection = Selection(
        "Evenflow",
        catalogue.LATE_DELTAS.name,
        (("Environment", PREFIX),),
        "Average",
        60,
        None,
    )
    assert (await service.series(selection))[0] == pytest.approx(100 * 10 / 6_000_000)


async def test_p95_of_six_million_events_in_a_minute(service: Service) -> None:
    """100,000 events a second over two tasks, one of them slow: 94 % at 20 ms, 6 % at 150 ms."""
    quick, slow = HandlerTask(), HandlerTask()
    for task, value, count in ((quick, 20.0, 5_640_000), (slow, 150.0, 360_000)):
        distribution = task.metrics.distribution(catalogue.DELIVERY_JITTER)
        distribution.record(value)
        (bucket,) = (index for index, seen in enumerate(distribution.counts) if seen)
        distribution.counts[bucket], distribution.total = count, value * count
        await service.publish(task, 0)
    dimensions = (("Environment", PREFIX),)
    p95, samples = (
        Selection("Evenflow", catalogue.DELIVERY_JITTER.name, dimensions, stat, 60, None)
        for stat in ("p95", "SampleCount")
    )
    assert (await service.series(p95))[0] == pytest.approx(150)
    assert (await service.series(samples))[0] == 6_000_000


# -- the outage drill ------------------------------------------------------------------------------


async def _minute_of_answers(
    task: HandlerTask, source: OpenAIModel, fallback_text: str, minute: int
) -> None:
    """What a handler does with three messages, with the limits that it has by default."""
    clock = HandTurnedClock()
    cluster = ClusterMember(
        NodeContext(Limits(), clock.delivery, task.metrics, clock.monotonic, clock.monotonic),
        memory_stores(),
        ServedModel(source, AgentSettings(), fallback_text),
        name="task",
        address=None,
        peers=PeerNetwork(),
    )
    await cluster.start()
    orchestrator = cluster.orchestrator
    for number in range(3):
        channel = Channel("public", "demo", f"{minute}-{number}")
        await orchestrator.submit(IncomingMessage(channel, "m1", None, "a question"))
    async with asyncio.timeout(10):
        while orchestrator.busy:  # noqa: ASYNC110 - the model's server is asked
            await asyncio.sleep(0.01)


_DEFAULT_FALLBACK = str(HandlerSettings.model_fields["fallback_text"].default)
_OUTAGES = {
    "a server that fails": (500, _DEFAULT_FALLBACK, True),
    "a wrong key": (401, _DEFAULT_FALLBACK, True),
    "nobody there": (None, _DEFAULT_FALLBACK, True),
    "a fallback answer in the model's place": (500, "Please ask again.", True),
    "messages that are refused": (400, _DEFAULT_FALLBACK, False),
}


@pytest.mark.usefixtures("no_pause_before_a_retry")
@pytest.mark.parametrize("what", _OUTAGES)
async def test_a_model_that_always_fails_raises_the_alarm(
    what: str, service: Service, alarms: Alarms
) -> None:
    status, fallback_text, raised = _OUTAGES[what]
    task = HandlerTask()
    async with scripted_model() as model:
        model.will(Reply([b"no"], status=status or 200))
        url = model.url if status else f"http://127.0.0.1:{free_port()}/v1"
        source = OpenAIModel(url, "m", None)
        for minute in range(WINDOW_MINUTES):
            await _minute_of_answers(task, source, fallback_text, minute)
            await service.publish(task, minute)
        await source.close()
    expected = {f"{PREFIX}-{catalogue.RESPONSE_FAILURE_RATE.name}"} if raised else set()
    assert await service.raised(alarms) == expected
