from __future__ import annotations

import pytest

from stream_core.ports.tenant_activity import Activity
from stream_core.protocol.errors import RateLimited
from stream_core.tenants.charges import Asked, Payer
from stream_core.tenants.other_tasks import OtherTasks
from stream_core.tenants.quotas import Quotas
from stream_core.tenants.registry import Tenants
from stream_core.tenants.tenant import QuotaLimits, Tenant

ACME = Payer("acme")
LIMITS = QuotaLimits(requests_per_minute=100, tokens_per_minute=10_000, answers_at_once=3)
TENANTS = Tenants(records=[Tenant(id="acme", limits=LIMITS)])


class Task:
    """One of several tasks, and what it tells the others."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.quotas = Quotas(TENANTS)
        self.others = OtherTasks(self.quotas, name)

    @property
    def row(self) -> Activity:
        account = self.quotas.of_tenant("acme")
        assert account is not None
        return Activity("acme", self.name, 0.0, *account.charged, account.answers)

    def left(self, now: float = 0.0) -> list[int]:
        return [state.remaining for state in self.quotas.states(ACME, now)]


def exchange(*tasks: Task, now: float = 0.0) -> None:
    rows = [task.row for task in tasks]
    for task in tasks:
        task.others.told(["acme"], rows, now)


def test_what_one_task_charges_and_gives_back_is_counted_by_all() -> None:
    a, b, c = Task("a"), Task("b"), Task("c")
    exchange(a, b, c)
    charge = a.quotas.charge(ACME, Asked(400, 900), 0.0)
    b.quotas.charge(ACME, Asked(0, 500), 0.0)
    for _ in range(3):
        exchange(a, b, c)
        assert a.left() == b.left() == c.left() == [98, 10_000 - 1_500]
    charge.settle(40, 0.0)
    exchange(a, b, c)
    assert a.left() == b.left() == c.left() == [98, 10_000 - 640]


def test_answers_at_once_are_those_of_all_tasks() -> None:
    a, b = Task("a"), Task("b")
    charges = [a.quotas.charge(ACME, Asked(0, 1), 0.0) for _ in range(2)]
    exchange(a, b)
    b.quotas.charge(ACME, Asked(0, 1), 0.0)
    with pytest.raises(RateLimited) as refusal:
        b.quotas.charge(ACME, Asked(0, 1), 0.0)
    assert refusal.value.extra["limit"] == "tenant.answers_at_once"
    charges[0].settle(1, 0.0)
    exchange(a, b)
    b.quotas.charge(ACME, Asked(0, 1), 0.0)


def test_what_a_task_had_charged_when_it_was_first_heard_of_is_not_counted() -> None:
    a, b = Task("a"), Task("b")
    for _ in range(50):
        a.quotas.charge(ACME, Asked(0, 1), 0.0).settle(1, 0.0)
    exchange(a, b)
    assert b.left()[0] == 100
    a.quotas.charge(ACME, Asked(0, 1), 0.0)
    exchange(a, b)
    assert b.left()[0] == 99


def test_a_task_whose_row_is_gone_has_nothing_any_more() -> None:
    a, b = Task("a"), Task("b")
    for _ in range(3):
        a.quotas.charge(ACME, Asked(0, 1), 0.0)
    exchange(a, b)
    with pytest.raises(RateLimited):
        b.quotas.charge(ACME, Asked(0, 1), 0.0)
    exchange(b)
    b.quotas.charge(ACME, Asked(0, 1), 0.0)
