"""Who has asked within a minute may come again."""

from __future__ import annotations

from stream_core.fairness.recent_tenants import RecentTenants


def test_another_tenant_may_come_that_asked_within_a_minute_and_waits_for_nothing() -> None:
    recent = RecentTenants()
    recent.asks("quiet", now=0.0)
    recent.asks("busy", now=1.0)
    assert recent.others_may_come("busy", waiting={"busy"}, now=50.0)
    assert not recent.others_may_come("busy", waiting={"busy", "quiet"}, now=50.0)
    assert not recent.others_may_come("busy", waiting={"busy"}, now=60.1)
    recent.asks("busy", now=70.0)
    assert not recent.others_may_come("busy", waiting=set(), now=70.0), "it is not another one"


def test_who_asks_again_is_recent_again() -> None:
    recent = RecentTenants()
    for now in range(0, 200, 50):
        recent.asks("quiet", now)
        recent.asks("busy", now + 1)
    assert recent.others_may_come("busy", waiting=(), now=200)
