"""Who may have how much of a store: whoever fills it keeps nobody else out."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

import pytest

from evenflow.stream_core.policy.store_share import room_for

MOST = 1_000_000
BLOCK = 1_000


class Store:
    """What is kept, by sender: `tenant/address/session`."""

    def __init__(self) -> None:
        self.kept: Counter[str] = Counter()

    def room(self, sender: str) -> int:
        levels = accumulate(sender.split("/"), "{}/{}".format)
        kept = [sum(self.kept[it] for it in self.kept if it.startswith(own)) for own in levels]
        return room_for(MOST, self.kept.total(), *kept)

    def fill(self, senders: list[str]) -> None:
        """All of them send, one block after the other, until nobody has room."""
        while ready := [it for it in senders if self.room(it) >= BLOCK]:
            for sender in ready:
                if self.room(sender) >= BLOCK:
                    self.kept[sender] += BLOCK


def test_one_sender_alone_stops_at_three_quarters() -> None:
    store = Store()
    store.fill(["public/greedy/one"])
    assert 0.72 * MOST < store.kept.total() < 0.78 * MOST
    assert store.room("public/greedy/another") >= BLOCK


@pytest.mark.parametrize(
    "greedy",
    ["public/address/{}", "public/{}/session", "{}/address/session"],
    ids=["sessions of an address", "addresses of a tenant", "tenants"],
)
def test_however_many_have_much_whoever_has_little_finds_room(greedy: str) -> None:
    store = Store()
    store.fill([greedy.format(chr(97 + number)) for number in range(20)])
    assert store.kept.total() < MOST
    assert store.room(greedy.format("a")) < BLOCK
    for newcomer in ("public/address/newcomer", "public/newcomer/session", "newcomer/one/session"):
        assert store.room(newcomer) >= BLOCK


def test_of_two_the_one_with_more_is_refused_first() -> None:
    store = Store()
    store.kept.update({"a/much/s": 600_000, "b/some/s": 100_000, "others": 180_000})
    assert store.room("a/much/s") < 0 < store.room("b/some/s")


def test_of_a_full_store_nothing_is_left_for_anybody() -> None:
    store = Store()
    store.kept["a/much/s"] = MOST
    assert store.room("b/newcomer/s") <= 0
