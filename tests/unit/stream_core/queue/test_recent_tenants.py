"""Who has asked lately may come again."""

from __future__ import annotations

from evenflow.stream_core.queue.recent_tenants import RecentTenants


def test_those_may_come_that_asked_within_a_minute_and_wait_for_nothing() -> None:
    recent = RecentTenants()
    recent.record_request("quiet", now=0.0)
    recent.record_request("busy", now=1.0)
    assert recent.expected_idle_tenants(waiting={"busy"}, now=50.0) == ["quiet"]
    assert recent.expected_idle_tenants(waiting={"busy", "quiet"}, now=50.0) == []
    assert recent.expected_idle_tenants(waiting={"busy"}, now=60.1) == []
    assert recent.expected_idle_tenants(waiting=(), now=60.1) == ["busy"]


def test_two_of_them_are_enough_so_that_one_is_another_one() -> None:
    recent = RecentTenants()
    for tenant in "abcd":
        recent.record_request(tenant, now=0.0)
    assert recent.expected_idle_tenants(waiting={"c"}, now=1.0) == ["d", "b"]


def test_who_asks_again_is_recent_again() -> None:
    recent = RecentTenants()
    for now in range(0, 200, 50):
        recent.record_request("quiet", now)
        recent.record_request("busy", now + 1)
    assert recent.expected_idle_tenants(waiting={"busy"}, now=200) == ["quiet"]


def test_there_are_several_while_two_have_asked_within_a_minute() -> None:
    recent = RecentTenants()
    recent.record_request("quiet", now=0.0)
    assert not recent.has_several(now=1.0)
    recent.record_request("busy", now=30.0)
    assert recent.has_several(now=60.0)
    assert not recent.has_several(now=60.1)


def test_who_has_asked_another_task_may_come_here() -> None:
    recent = RecentTenants()
    recent.record_request("busy", now=0.0)
    recent.record_requests_on_other_nodes({"busy": 1}, now=0.0)
    assert not recent.has_several(now=1.0), "one tenant that asks everywhere"
    recent.record_requests_on_other_nodes({"busy": 0, "quiet": 1}, now=1.0)
    assert recent.has_several(now=1.0)
    assert recent.expected_idle_tenants(waiting={"busy"}, now=1.0) == ["quiet"]
    assert not recent.has_several(now=6.1), "that task tells nothing of it any more"


def test_others_are_told_only_of_those_that_have_asked_here() -> None:
    recent = RecentTenants()
    recent.record_requests_on_other_nodes({"there": 1}, now=0.0)
    assert recent.requests_here(now=0.0) == {}
    for now, tenant in enumerate("abb"):
        recent.record_request(tenant, now)
    assert recent.requests_here(now=2.0) == {"b": 2, "a": 1}
    assert recent.requests_here(now=60.5) == {}


def test_others_are_told_of_the_last_ten() -> None:
    recent = RecentTenants()
    for now in range(11):
        recent.record_request(f"t{now}", now)
    assert list(recent.requests_here(now=10.0)) == [f"t{last}" for last in range(10, 0, -1)]


def expected_until(*asked_at: float) -> float:
    """The second until which a tenant is expected back that has asked at these."""
    recent = RecentTenants()
    for now in asked_at:
        recent.record_request("quiet", now)
    last = asked_at[-1]
    return max(after for after in range(100) if recent.requests_here(last + after)) + last


def test_who_asked_each_second_and_asks_no_more_is_expected_for_13_seconds() -> None:
    assert expected_until(0, 1, 2, 3) == 3 + 13


def test_who_asked_once_is_expected_for_a_minute() -> None:
    assert expected_until(0) == 60


def test_who_pauses_is_expected_for_three_of_their_longest_pauses() -> None:
    assert expected_until(0, 8) == 8 + 24
    assert expected_until(0, 8, 9, 10, 11) == 11 + 17, "longest lately"
    assert expected_until(0, 50, 100) == 100 + 60


def test_questions_to_other_tasks_count_for_the_pauses() -> None:
    """One of many tasks is asked seldom by a tenant that asks each second."""
    recent = RecentTenants()
    recent.record_request("quiet", now=0.0)
    for now in range(1, 40):
        recent.record_requests_on_other_nodes({"quiet": 1}, now)
    recent.record_request("quiet", now=40.0)
    recent.record_requests_on_other_nodes({"quiet": 0}, now=45.0)
    assert recent.requests_here(53.0) == {"quiet": 2}
    assert recent.requests_here(53.1) == {}
    recent.record_requests_on_other_nodes({"quiet": 4}, now=60.0)
    assert recent.requests_here(100.0), "a pause of 20 seconds"
    assert not recent.requests_here(120.1)


def test_each_question_to_another_task_leaves_less_of_a_long_pause() -> None:
    recent = RecentTenants()
    for now in (0.0, 8.0):
        recent.record_request("quiet", now)
    recent.record_requests_on_other_nodes({"quiet": 3}, now=9.0)
    assert recent.requests_here(9.0 + 17)
    assert not recent.requests_here(9.0 + 18)


def test_nobody_told_of_is_nobody() -> None:
    recent = RecentTenants()
    recent.record_requests_on_other_nodes({}, now=0.0)
    assert not recent.has_several(now=0.0)
