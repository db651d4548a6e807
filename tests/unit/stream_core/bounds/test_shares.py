from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from evenflow.stream_core.bounds.shares import QUARTER, Shares


def filled(most: int, *names: str) -> Shares[str]:
    shares: Shares[str] = Shares(most)
    for name in names:
        shares.add(name)
    return shares


def test_one_alone_may_have_all() -> None:
    shares = filled(16, *"a" * 15)
    assert shares.has_room("a")
    shares.add("a")
    assert (shares.full, shares.has_room("a")) == (True, False)


def test_while_one_has_more_than_half_there_is_an_eighth_more_for_others() -> None:
    shares = filled(16, *"a" * 9, *"b" * 7)
    assert not shares.has_room("a")
    for name in "bc":
        assert shares.has_room(name)
        shares.add(name)
    assert not shares.has_room("d")
    assert len(shares) == 18


def test_where_nobody_has_more_than_half_there_are_no_more() -> None:
    shares = filled(16, *"a" * 8, *"b" * 8)
    assert not any(shares.has_room(name) for name in "abc")


def test_what_was_given_back_can_be_taken() -> None:
    shares = filled(16, *"a" * 16)
    shares.remove("a")
    assert shares.has_room("a")
    for _ in range(15):
        shares.remove("a")
    assert (len(shares), shares.greedy) == (0, None)


def test_it_may_be_another_part() -> None:
    shares: Shares[str] = Shares(8, part=4)
    for name in "aaaaaaaab":
        shares.add(name)
    assert (shares.has_room("a"), shares.has_room("b")) == (False, True)
    shares.add("b")
    assert not shares.has_room("b")


def test_few_places_have_no_eighth() -> None:
    assert not filled(7, *"a" * 7).has_room("b")


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=60))
def test_whoever_has_more_than_half_after_taking_one_is_known(
    steps: list[tuple[bool, str]],
) -> None:
    shares: Shares[str] = Shares(8)
    held: Counter[str] = Counter()
    for takes, name in steps:
        if takes and shares.has_room(name):
            shares.add(name)
            held[name] += 1
            if held[name] > 4 and held.total() < 9:
                assert shares.greedy is not None
        elif not takes and held[name]:
            shares.remove(name)
            held[name] -= 1
        assert len(shares) == held.total() <= 9


STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-6, 6)), max_size=20)


@given(STEPS)
@example([("a", 5), ("b", 5), ("a", -1)])
def test_who_has_more_than_half_is_known_whoever_had_it_before(
    steps: list[tuple[str, int]],
) -> None:
    shares: Shares[str] = Shares(8, QUARTER)
    having = Counter[str]()
    for name, more in steps:
        for _ in range(min(more, 10 - len(shares))):
            shares.add(name)
            having[name] += 1
        for _ in range(min(-more, having[name])):
            shares.remove(name)
            having[name] -= 1
        more_than_half = [name for name in having if having[name] > 4]
        assert (shares.greedy in more_than_half) == bool(more_than_half and len(shares) < 10)
