"""Who may have how much of a store: whoever fills it keeps nobody else out."""

from __future__ import annotations

from collections import Counter

import pytest

from evenflow.stream_core.policy.store_share import room_for

MOST = 1_000_000
BLOCK = 1_000


class Store:
    """What is kept, by tenant and sender."""

    def __init__(self) -> None:
        self.kept: Counter[tuple[str, str]] = Counter()

    def room(self, tenant: str, sender: str) -> int:
        of_tenant = sum(size for (other, _), size in self.kept.items() if other == tenant)
        return room_for(MOST, self.kept.total(), of_tenant, self.kept[tenant, sender])

    def fill(self, senders: list[tuple[str, str]]) -> None:
        """All of them send, one block after the other, until nobody has room."""
        while ready := [it for it in senders if self.room(*it) >= BLOCK]:
            for tenant, sender in ready:
                if self.room(tenant, sender) >= BLOCK:
                    self.kept[tenant, sender] += BLOCK


def test_one_sender_alone_stops_at_three_quarters() -> None:
    store = Store()
    store.fill([("public", "greedy")])
    assert 0.72 * MOST < store.kept.total() < 0.8 * MOST


@pytest.mark.parametrize("tenants", [1, 40], ids=["of one tenant", "of tenants of their own"])
def test_however_many_have_much_whoever_has_little_finds_room(tenants: int) -> None:
    store = Store()
    store.fill([(f"tenant {number % tenants}", f"greedy {number}") for number in range(40)])
    assert store.kept.total() < MOST
    assert store.room("tenant 0", "greedy 0") < BLOCK
    assert store.room("tenant 0", "newcomer") >= BLOCK
    assert store.room("another", "newcomer") >= BLOCK


def test_of_two_the_one_with_more_is_refused_first() -> None:
    store = Store()
    store.kept["a", "much"], store.kept["b", "some"] = 600_000, 100_000
    store.kept["others", ""] = 180_000
    assert store.room("a", "much") < 0 < store.room("b", "some")


def test_of_a_full_store_nothing_is_left_for_anybody() -> None:
    store = Store()
    store.kept["a", "much"] = MOST
    assert store.room("b", "newcomer") <= 0
