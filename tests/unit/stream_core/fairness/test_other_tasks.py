from __future__ import annotations

from stream_core.fairness.other_tasks import OtherTasks
from stream_core.ports.tenant_activity import Activity


def row(task: str, service: float, tenant: str = "t", answers: int = 0) -> Activity:
    return Activity(tenant, task, service, requests=int(service) // 10, answers=answers)


def steady(*rows: Activity) -> OtherTasks:
    """One that has read these rows for a while."""
    others = OtherTasks("me")
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
    others.read([], [])
    told = [others.read(["t"], [row("a", count)])["t"] for count in (1, 500, 510)]
    assert [others.service for others in told] == [0, 0, 10]
    assert others.read(["t"], [row("a", 510, answers=2)])["t"].answers == 2
