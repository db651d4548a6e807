"""What the port promises by which nodes report to each other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.tenant_activity import Activity
from evenflow.stream_core.upstream.node_reports import ModelCallReport, NodeReport
from tests.integration.dynamodb_faults import Fault
from tests.integration.stores.conftest import DynamoDBStores, Nodes
from tests.integration.stores.stores import NOW

BUSY = ModelCallReport(
    running=9, answered=4, prompts=1_200, wanted={"acme": 70, "b.2": 1}, limit=32
)
ACTIVITY = Activity("acme", "a", 12.5, 3, 40, 50, 2, 7, 8.5)
REPORT = NodeReport(
    node="a",
    requests={"acme": 812, "b.2": 1},
    calls={"eu.model-v1:0": BUSY},
    activity={"acme": ACTIVITY.counts, "acme/key": {"requests": 1}},
)


def by_node(reports: Sequence[NodeReport]) -> list[NodeReport]:
    return sorted(reports, key=lambda report: report.node)


async def test_what_a_node_publishes_all_read(nodes: Nodes) -> None:
    one, other = nodes
    assert list(await other.read_all(NOW)) == []
    await one.publish(REPORT, NOW)
    (report,) = await other.read_all(NOW)
    assert report == REPORT
    assert (report.activity_of("acme"), report.activity_of("b.2")) == (ACTIVITY, None)
    assert list(await one.read_all(NOW)) == [REPORT]


async def test_a_later_report_replaces_the_earlier_one_of_its_node_alone(nodes: Nodes) -> None:
    one, other = nodes
    await one.publish(REPORT, NOW)
    theirs = NodeReport(node="b", calls={"m": ModelCallReport(running=1)})
    await other.publish(theirs, NOW)
    later = NodeReport(node="a")
    await one.publish(later, NOW + 1)
    assert by_node(await other.read_all(NOW + 1)) == [later, theirs]


async def test_a_report_expires_ten_seconds_after_it_was_written(nodes: Nodes) -> None:
    one, other = nodes
    await one.publish(REPORT, NOW)
    assert list(await other.read_all(NOW + 9)) == [REPORT]
    assert list(await other.read_all(NOW + 10)) == []
    await one.publish(REPORT, NOW + 9)
    assert list(await other.read_all(NOW + 10)) == [REPORT]


async def test_a_report_of_two_thousand_tenants_fits(nodes: Nodes) -> None:
    one, other = nodes
    full = {
        name: 123_456.5 if name in {"service", "expected"} else 1_234_567
        for name in Activity("", "", *[1] * 7).counts
    }
    report = NodeReport(node="a", activity={f"tenant-{n:05}//{n:016x}": full for n in range(2_000)})
    await one.publish(report, NOW)
    assert list(await other.read_all(NOW)) == [report]
    assert len(report.to_text()) < 400_000


def test_what_another_version_has_added_is_left_out_and_what_it_lacks_is_nothing() -> None:
    text = (
        '{"task": "a", "new": 1, "calls": {"m": {"running": 2, "newer": [3]}}, '
        '"activity": {"t": {"requests": 3, "newest": 4}}}'
    )
    report = NodeReport.from_text(text)
    assert report.calls == {"m": ModelCallReport(running=2)}
    assert report.activity_of("t") == Activity("t", "a", requests=3)


def test_the_version_before_reads_the_calls_by_their_names() -> None:
    before = (
        '{"task":"a","asked":{"acme":812},"calls":{"m":{"running":9,"answered":4,"prompts":1200,'
        '"wanted":{"acme":70},"delay":0.0,"slots":32}}'
    )
    report = NodeReport.from_text(before + "}")
    assert (report.requests, report.calls["m"].limit) == ({"acme": 812}, 32)
    assert report.to_text() == before + ',"activity":{}}'


async def test_a_sick_table_is_told_as_such(
    dynamodb_stores: DynamoDBStores, dynamodb_nodes: Nodes, short_pauses: None
) -> None:
    dynamodb_stores.dynamodb.inject(Fault.THROTTLED)
    with pytest.raises(StoreUnavailable):
        await dynamodb_nodes[0].publish(REPORT, NOW)
    with pytest.raises(StoreUnavailable):
        await dynamodb_nodes[0].read_all(NOW)
