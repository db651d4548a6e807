"""The shares of senders in a store: one that fills it keeps no other out."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

import pytest

from evenflow.stream_core.bounds.store_share import has_room

MOST = 1_000_000
BLOCK = 1_000


class Store:
    """What is kept, by sender: `tenant/address/session`."""

    def __init__(self) -> None:
        self.kept: Counter[str] = Counter()

    def takes(self, sender: str, size: int = BLOCK) -> bool:
        levels = accumulate(sender.split("/"), "{}/{}".format)
        kept = [sum(self.kept[it] for it in self.kept if it.startswith(own)) for own in levels]
        return has_room(MOST, self.kept.total(), size, *kept)

    def fill(self, senders: list[str]) -> None:
        """All of them send, one block after the other, until nobody has room."""
        while ready := [sender for sender in senders if self.takes(sender)]:
            for sender in ready:
                if self.takes(sender):
                    self.kept[sender] += BLOCK


def test_one_sender_alone_stops_at_three_quarters() -> None:
    store = Store()
    store.fill(["public/greedy/one"])
    assert 0.72 * MOST < store.kept.total() < 0.78 * MOST
    assert store.takes("public/greedy/another")


@pytest.mark.parametrize(
    "greedy",
    ["public/address/{}", "public/{}/session", "{}/address/session"],
    ids=["sessions of an address", "addresses of a tenant", "tenants"],
)
def test_however_many_have_much_a_sender_with_little_finds_room(greedy: str) -> None:
    store = Store()
    store.fill([greedy.format(chr(97 + number)) for number in range(20)])
    assert store.kept.total() < MOST
    assert not store.takes(greedy.format("a"))
    for newcomer in ("public/address/newcomer", "public/newcomer/session", "newcomer/one/session"):
        assert store.takes(newcomer, BLOCK // 10)


def test_of_two_the_one_with_more_is_refused_first() -> None:
    store = Store()
    store.kept.update({"a/much/s": 600_000, "b/some/s": 100_000, "others": 180_000})
    assert [store.takes("a/much/s"), store.takes("b/some/s")] == [False, True]


def test_of_a_full_store_nothing_is_left() -> None:
    store = Store()
    store.kept["a/much/s"] = MOST
    assert not store.takes("b/newcomer/s", 1)
