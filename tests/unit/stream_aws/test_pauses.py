from __future__ import annotations

from evenflow.stream_aws.pauses import Pauses


def _longest(pauses: Pauses, partition: str) -> float:
    return max(pauses.next(partition) for _ in range(200))


def test_a_pause_doubles_where_calls_meet_and_ends_where_they_do_not() -> None:
    pauses = Pauses(0.2)
    assert pauses.next("acme") == 0
    pauses.lengthen("acme")
    first = _longest(pauses, "acme")
    assert 0.01 < first <= 0.03
    for _ in range(10):
        pauses.lengthen("acme")
    assert 0.2 < _longest(pauses, "acme") <= 0.3  # half more than the longest at most, by chance
    assert pauses.next("zeta") == 0
    pauses.shorten("acme")
    assert _longest(pauses, "acme") < 0.25
    for _ in range(30):
        pauses.shorten("acme")
    assert pauses.next("acme") == 0
