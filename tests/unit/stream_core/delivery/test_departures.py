from __future__ import annotations

from itertools import pairwise

import pytest

from evenflow.stream_core.delivery.departures import Departures


def _departures(count: int, *, first_until: float = 75.0, until: float = 100.0) -> Departures[int]:
    return Departures(range(count), 0.0, per_second=12.0, first_until=first_until, until=until)


def _sent_at(
    departures: Departures[int], reading_until: float, end: float = 100.0
) -> dict[int, float]:
    """When each client is sent that reads until then, looked at every 10 ms."""
    sent = {}
    for step in range(int(end * 100) + 1):
        now = step / 100
        for client in departures.overdue(now):
            if not (now < reading_until and departures.put_back(client, now)):
                sent[client] = now
    return sent


def test_slots_are_told_in_their_order_and_a_part_at_a_time() -> None:
    departures = _departures(5)
    assert list(departures.next_departures(2)) == [(0.0, 0), (pytest.approx(0.1), 1)]
    assert [client for _, client in departures.next_departures()] == [2, 3, 4]
    assert list(departures.next_departures()) == []


def test_who_does_not_go_is_sent_two_seconds_after_its_slot() -> None:
    departures = _departures(3)
    list(departures.next_departures())
    assert departures.overdue(1.99) == []
    assert departures.overdue(2.15) == [0, 1]
    assert departures.overdue(2.2) == [2]
    assert departures.overdue(90.0) == []


def test_who_has_not_been_told_is_not_sent() -> None:
    departures = _departures(3)
    list(departures.next_departures(1))
    assert departures.overdue(50.0) == [0]


def test_who_is_put_back_goes_behind_everybody_and_at_the_same_rate() -> None:
    departures = _departures(200)
    list(departures.next_departures())
    sent = sorted(_sent_at(departures, reading_until=40.0).values())
    assert len(sent) == 200
    assert sent[0] >= 40.0
    assert all(later - earlier >= 0.09 for earlier, later in pairwise(sent))


def test_the_last_slots_are_before_the_end_however_long_a_client_stays() -> None:
    departures = _departures(200)
    list(departures.next_departures())
    sent = sorted(_sent_at(departures, reading_until=1000.0).values())
    assert len(sent) == 200
    assert sent[0] >= 79.0
    assert sent[-1] <= 100.0
    assert all(later - earlier >= 0.09 for earlier, later in pairwise(sent))


def test_more_than_fit_go_closer_together() -> None:
    departures = _departures(1500)
    slots = [slot for slot, _ in departures.next_departures()]
    assert slots[-1] < 75.0
    sent = sorted(_sent_at(departures, reading_until=1000.0).values())
    assert sent[-1] <= 100.0


@pytest.mark.parametrize("count", [0, 1])
def test_without_time_there_is_no_other_slot(count: int) -> None:
    departures = _departures(count, first_until=0.0, until=0.0)
    assert len(list(departures.next_departures())) == count
    over = departures.overdue(2.0)
    assert len(over) == count
    assert not any(departures.put_back(client, 2.0) for client in over)
