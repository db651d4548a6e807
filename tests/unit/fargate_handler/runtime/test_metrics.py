from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.instruments import Distribution, Ratio
from evenflow.stream_core.metrics.metric_catalogue import CATALOGUE, Metric, MetricKind


def full_metrics() -> Metrics:
    metrics = Metrics()
    for metric in CATALOGUE:
        if metric.kind is MetricKind.GAUGE and metric is not catalogue.MESSAGES_PER_SECOND:
            metrics.gauge(metric, lambda: 7.0)
    return metrics


def samples(metrics: Metrics) -> dict[str, float]:
    """What Prometheus reads: the sample's name (with its bucket) and its value."""
    read: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics.prometheus_page().decode()):
        for sample in family.samples:
            bucket = sample.labels.get("le")
            read[sample.name if bucket is None else f"{sample.name}<={bucket}"] = sample.value
    return read


@pytest.fixture(scope="module")
def page() -> dict[str, float]:
    return samples(full_metrics())


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: str(metric.name))
def test_every_row_of_the_catalogue_is_on_the_page(metric: Metric, page: dict[str, float]) -> None:
    name, read = metric.prometheus_name, page
    match metric.kind:
        case MetricKind.COUNTER | MetricKind.DISTRIBUTION if metric.labels:
            assert name not in str(read)  # nothing was counted, so there is no label yet
        case MetricKind.DISTRIBUTION:
            assert read[f"{name}_count"] == read[f"{name}_sum"] == read[f"{name}_bucket<=+Inf"] == 0
        case MetricKind.COUNTER:
            assert read[f"{name}_total"] == 0
        case MetricKind.RATIO:
            assert read[name] == read[f"{name}_part_total"] == read[f"{name}_whole_total"] == 0
        case MetricKind.GAUGE:
            assert read[name] == (0.0 if metric is catalogue.MESSAGES_PER_SECOND else 7.0)


def test_the_page_says_what_each_metric_means() -> None:
    page = full_metrics().prometheus_page().decode()
    for metric in CATALOGUE:
        assert f"# HELP {metric.prometheus_name}" in page


@given(st.lists(st.floats(0, 1e6), max_size=60))
@settings(
    max_examples=settings().max_examples // 4
)  # each reads a whole page; the buckets have tests of their own
def test_a_distribution_is_a_histogram_with_cumulative_buckets(values: list[float]) -> None:
    metrics, name = full_metrics(), catalogue.DELIVERY_JITTER.prometheus_name
    for value in values:
        metrics.distribution(catalogue.DELIVERY_JITTER).record(value)
    read = samples(metrics)
    assert read[f"{name}_count"] == read[f"{name}_bucket<=+Inf"] == len(values)
    assert read[f"{name}_sum"] == pytest.approx(sum(values))
    for bound in Distribution.BOUNDS:
        assert read[f"{name}_bucket<={bound}"] == sum(value <= bound for value in values)


def test_counters_count() -> None:
    metrics = full_metrics()
    metrics.counter(catalogue.QUEUE_REFUSED).value += 3
    read = samples(metrics)
    assert read[f"{catalogue.QUEUE_REFUSED.prometheus_name}_total"] == 3
    assert read[f"{catalogue.RESPONSES_FAILED.prometheus_name}_total"] == 0


def test_a_counter_with_a_label_is_a_sample_for_each_and_their_sum_in_a_snapshot() -> None:
    metrics = full_metrics()
    refused = metrics.labelled(catalogue.MESSAGES_REFUSED)
    for code in ("queue_full", "rate_limited", "queue_full"):
        refused.count(code)
    page = metrics.prometheus_page().decode()
    assert 'evenflow_messages_refused_total{code="queue_full"} 2.0' in page
    assert 'evenflow_messages_refused_total{code="rate_limited"} 1.0' in page
    assert metrics.snapshot().counters[catalogue.MESSAGES_REFUSED.name] == 3


def test_gauges_are_read_when_someone_looks() -> None:
    metrics, level = full_metrics(), [1.0]
    metrics.gauge(catalogue.QUEUE_DEPTH, lambda: level[0])
    assert samples(metrics)[catalogue.QUEUE_DEPTH.prometheus_name] == 1.0
    level[0] = 5.0
    assert samples(metrics)[catalogue.QUEUE_DEPTH.prometheus_name] == 5.0


def test_a_ratio_is_the_percent_of_the_last_minute_and_its_counters_are_since_start() -> None:
    metrics, name = full_metrics(), catalogue.LATE_DELTAS.prometheus_name
    ratio = metrics.ratio(catalogue.LATE_DELTAS)
    metrics.end_minute(0.0)
    ratio.part, ratio.whole = 1, 200
    metrics.end_minute(60.0)
    assert ratio.percent == 0.5
    ratio.part, ratio.whole = 4, 300
    assert ratio.percent == 0.5, "until the minute is over"
    metrics.end_minute(120.0)
    read = samples(metrics)
    assert (read[name], read[f"{name}_part_total"], read[f"{name}_whole_total"]) == (3.0, 4, 300)
    metrics.end_minute(180.0)
    assert ratio.percent == 0.0, "nothing was due"


def test_during_the_first_minute_a_ratio_is_of_what_there_is() -> None:
    ratio = Ratio()
    ratio.part, ratio.whole = 1, 4
    assert ratio.percent == 25.0


def test_frames_a_second_are_the_mean_of_the_last_minute() -> None:
    metrics, name = full_metrics(), catalogue.MESSAGES_PER_SECOND.prometheus_name
    metrics.frames_sent.value = 1000
    metrics.end_minute(100.0)
    assert samples(metrics)[name] == 0.0, "how long it took is not known"
    metrics.frames_sent.value += 600
    metrics.end_minute(160.0)
    assert samples(metrics)[name] == 10.0
    metrics.end_minute(160.0)
    metrics.frames_sent.value += 60
    metrics.end_minute(220.0)
    assert samples(metrics)[name] == 1.0


def test_labels_that_come_without_end_are_one_series_in_the_end() -> None:
    counter = full_metrics().labelled(catalogue.MESSAGES_REFUSED)
    for number in range(1_000):
        counter.count(f"code_{number}")
    counter.count("code_0")
    assert counter.value == 1_001
    assert (len(counter.by_labels), counter.by_labels["other",]) == (201, 800)
    assert counter.by_labels["code_0",] == 2


def test_of_many_combinations_those_labels_stay_that_nobody_chooses() -> None:
    counter = full_metrics().labelled(catalogue.RESPONSES_ENDED)
    for number in range(1_000):
        counter.count(f"agent {number}", "m", "sse", "error", "stop")
    assert counter.by_labels["other", "other", "sse", "error", "stop"] == 800
    for number in range(1_000):
        counter.count("a", "m", "sse", "error", f"reason {number}")
    assert counter.by_labels["other", "other", "other", "other", "other"] == 801
    assert len(counter.by_labels) == 401


def test_a_distribution_with_a_label_is_a_histogram_for_each_and_their_sum_in_a_snapshot() -> None:
    metrics = full_metrics()
    first_token = metrics.divided(catalogue.FIRST_TOKEN)
    for number in range(25):
        first_token.record_of(f"m{number}", 10.0)
    first_token.record_of("m0", 30.0, 2)
    page, name = metrics.prometheus_page().decode(), catalogue.FIRST_TOKEN.prometheus_name
    assert f'{name}_count{{model="m0"}} 3.0' in page
    assert f'{name}_bucket{{le="10.0",model="m0"}} 1.0' in page
    assert f'{name}_count{{model="other"}} 5.0' in page
    assert metrics.snapshot().distributions[catalogue.FIRST_TOKEN.name].count == 27


def test_several_labels_are_one_sample_for_each_combination() -> None:
    metrics = full_metrics()
    metrics.labelled(catalogue.RESPONSES_ENDED).count(
        "a", "m", "ai_sdk", "error", "upstream_failed", times=3
    )
    page = metrics.prometheus_page().decode()
    assert (
        'evenflow_responses_ended_total{agent="a",model="m",protocol="ai_sdk",'
        'reason="upstream_failed",state="error"}'
        " 3.0" in page
    )


def test_what_is_uneven_is_taken_from_the_buckets_of_the_jitter() -> None:
    metrics = full_metrics()
    metrics.end_minute(0.0)
    for milliseconds in (1.0, 99.0, 100.0, 101.0, 500.0):
        metrics.distribution(catalogue.DELIVERY_JITTER).record(milliseconds)
    assert metrics.snapshot().ratios[catalogue.UNEVEN_RATE.name] == (2, 5)
    metrics.end_minute(60.0)
    assert metrics.ratio(catalogue.UNEVEN_RATE).percent == 40.0
