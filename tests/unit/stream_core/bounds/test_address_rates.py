from __future__ import annotations

import pytest

from evenflow.stream_core.bounds.address_rates import AddressRates

ONE, OTHER = "203.0.113.7", "2001:db8::/64"


def taken(rates: AddressRates, address: str, times: int, now: float = 0.0) -> int:
    return sum(rates.take(address, now) == 0.0 for _ in range(times))


def test_an_address_has_a_minutes_worth_at_once_and_then_the_rate() -> None:
    rates = AddressRates(2)
    assert taken(rates, ONE, 121) == 120
    assert rates.take(ONE, 0.0) == 0.5
    assert taken(rates, ONE, 10, now=3.0) == 6


def test_addresses_are_counted_apart() -> None:
    rates = AddressRates(1)
    taken(rates, ONE, 100)
    assert taken(rates, OTHER, 60) == 60


@pytest.mark.parametrize("own", ["127.0.0.1", "127.8.8.8", "::/64"])
def test_this_machine_is_not_counted(own: str) -> None:
    rates = AddressRates(1)
    assert taken(rates, own, 1_000) == 1_000
    assert len(rates) == 0


def test_only_so_many_are_remembered_and_the_one_idle_longest_is_forgotten() -> None:
    rates = AddressRates(1, most_addresses=2)
    taken(rates, ONE, 60)
    taken(rates, OTHER, 60)
    assert rates.take(ONE, 0.5) == 0.5
    assert rates.take("198.51.100.1", 0.5) == 0.0
    assert len(rates) == 2
    assert rates.take(ONE, 0.5) == 0.5
    assert taken(rates, OTHER, 61, now=0.5) == 60


def test_what_is_spent_may_be_more_than_is_left_and_is_owed() -> None:
    rates = AddressRates(10, burst_seconds=2)
    rates.spend(ONE, "acme", 0.0, 15)
    assert rates.empty_for(ONE, "acme", 0.0) == 0.0
    rates.spend(ONE, "acme", 0.0, 35)
    assert rates.empty_for(ONE, "acme", 0.0) == pytest.approx(3.1)
    assert rates.empty_for(ONE, "acme", 3.2) == 0.0
    assert rates.empty_for(ONE, "other", 0.0) == rates.empty_for(OTHER, "acme", 0.0) == 0.0


def test_what_this_machine_spends_is_not_counted() -> None:
    rates = AddressRates(1)
    rates.spend("127.0.0.1", "acme", 0.0, 1_000)
    assert rates.empty_for("127.0.0.1", "acme", 0.0) == 0.0
