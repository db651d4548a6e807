from __future__ import annotations

from evenflow.stream_core.queue.activity_on_other_nodes import ActivityOnOtherNodes
from evenflow.stream_core.tenants.tenant_activity import Activity


def row(task: str, service: float, tenant: str = "t", answers: int = 0) -> Activity:
    return Activity(tenant, task, service, requests=int(service) // 10, answers=answers)


def steady(*rows: Activity) -> ActivityOnOtherNodes:
    """One that has read these rows for a while."""
    others = ActivityOnOtherNodes("me")
    for _ in range(2):
        others.read({row.tenant for row in rows}, rows)
    return others


def test_what_others_did_since_the_last_reading_is_added_up() -> None:
    others = steady(row("a", 100), row("b", 50))
    told = others.read(["t"], [row("a", 130, answers=1), row("b", 60, answers=2), row("me", 999)])
    assert told == {"t": Activity("t", "", 40, requests=4, answers=3)}
    assert others.read(["t"], [row("a", 130), row("b", 60)]) == {"t": Activity("t", "")}


def test_a_row_that_was_gone_is_new_again() -> None:
    others = steady(row("a", 100))
    others.read(["t"], [])
    assert others.read(["t"], [row("a", 5_000)])["t"].service == 0


def test_what_was_set_right_downwards_is_taken_back() -> None:
    others = steady(row("a", 100))
    assert others.read(["t"], [row("a", 90)])["t"].service == -10


def test_tenants_are_kept_apart_and_who_has_no_rows_has_done_nothing() -> None:
    others = steady(row("a", 1), row("a", 2, tenant="u"))
    told = others.read(["t", "u", "v"], [row("a", 4), row("a", 2, tenant="u")])
    assert {tenant: told[tenant].service for tenant in told} == {"t": 3, "u": 0, "v": 0}


def test_what_was_done_before_a_tenant_was_compared_counts_for_nobody() -> None:
    others = steady(row("a", 1))
    for _ in range(11):
        others.read([], [])
    told = [others.read(["t"], [row("a", count)])["t"] for count in (1, 500, 510)]
    assert [others.service for others in told] == [0, 0, 10]
    assert others.read(["t"], [row("a", 510, answers=2)])["t"].answers == 2


def test_what_comes_while_a_tenant_is_not_compared_for_a_moment_counts_when_it_is_again() -> None:
    others = steady(row("a", 1), row("a", 2, tenant="u"))
    for _ in range(10):
        others.read(["u"], [row("a", 2, tenant="u")])
    assert others.read(["t"], [row("a", 31)])["t"].service == 30


def test_what_is_expected_counts_at_once_and_once_only() -> None:
    others, told = ActivityOnOtherNodes("me"), 0.0
    counts = [(5_000, 300), (5_400, 600), (5_500, 500), (5_700, 0)]
    for service, expected in counts:
        now = Activity("t", "a", service, expected=expected)
        told += others.read(["t"], [now])["t"].service
    # Of the first two readings what was expected, and then all.
    assert told == 600 + (5_700 - 5_400)
