"""Which connections go when a process may have no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.bounds.connection_places import (
    SPARE_CONNECTIONS,
    ConnectionPlaces,
    most_served,
)


def _filled(most: int, kind: str = "head") -> ConnectionPlaces[str]:
    """As many as may be accepted, all of them waiting."""
    places = ConnectionPlaces[str](most, 1_000)
    for number in range(most + SPARE_CONNECTIONS):
        name = f"{kind}{number}"
        assert places.accept(name) is None
        if kind == "body":
            assert places.serve(name) or number >= most
            places.wait_for_body(name, "somebody")
        elif kind == "idle":
            assert places.serve(name) or number >= most
            places.wait_for_request(name)
    return places


@pytest.mark.parametrize("kind", ["head", "body", "idle"])
def test_the_one_that_keeps_the_node_waiting_for_longest_goes(kind: str) -> None:
    places = _filled(2, kind)
    assert places.accept("new") == f"{kind}0"
    assert places.accept("newer") == f"{kind}1"
    assert places.serve("new")
    assert places.serve("newer")


def test_an_idle_one_goes_before_one_with_half_a_request() -> None:
    places = _filled(2)
    assert places.serve("head7")
    places.wait_for_request("head7")
    assert places.accept("new") == "head7"
    assert places.accept("newer") == "head0"


def test_one_that_is_served_never_goes_and_beyond_them_requests_are_refused() -> None:
    places = _filled(2)
    assert places.serve("head0")
    assert not places.full
    assert places.serve("head1")
    assert places.full
    assert not places.serve("head2")
    assert places.serve("head1"), "it has its place already"
    assert places.accept("new") == "head2"
    assert (places.serves("head0"), places.serves("new")) == (True, False)
    places.remove("head0")
    assert places.serve("new")


def test_the_newest_goes_when_all_others_are_served() -> None:
    places = ConnectionPlaces[int](0, 1)
    gone = [places.accept(number) for number in range(SPARE_CONNECTIONS + 2)]
    assert gone == [None] * SPARE_CONNECTIONS + [0, 1]


def test_one_that_is_gone_comes_back_by_nothing() -> None:
    places = ConnectionPlaces[str](1, 1)
    places.accept("a")
    places.remove("a")
    places.wait_for_body("a", "somebody")
    places.wait_for_request("a")
    assert places.serve("a")
    assert (len(places), places.oldest_body()) == (0, None)


def test_the_oldest_body_is_found_behind_heads() -> None:
    places = _filled(3)
    for name in ("head2", "head1"):
        places.serve(name)
        places.wait_for_body(name, "somebody")
    assert places.oldest_body() == "head2"


def test_a_body_too_many_cuts_the_oldest_one_of_who_sends_most() -> None:
    places = ConnectionPlaces[str](10, 3)
    for name in ("honest", "a1", "a2", "a3", "a4"):
        places.accept(name)
    assert places.wait_for_body("honest", "h") is None
    assert places.wait_for_body("a1", "a") is None
    assert places.wait_for_body("a2", "a") is None
    assert places.wait_for_body("a3", "a") == "a1"
    assert places.serve("a2"), "its body has come"
    assert places.wait_for_body("a4", "a") is None
    assert len(places) == 4


_STEPS = ["accept", "serve", "wait_for_body", "wait_for_request", "remove"]


@given(
    st.integers(1, 5),
    st.integers(1, 20),
    st.lists(
        st.tuples(st.sampled_from(_STEPS), st.integers(0, 200), st.sampled_from("abc")),
        max_size=300,
    ),
)
def test_there_are_never_more_than_may_be(
    most: int, most_bodies: int, steps: list[tuple[str, int, str]]
) -> None:
    places = ConnectionPlaces[int](most, most_bodies)
    there, bodies = set[int](), set[int]()
    for what, connection, sender in steps:
        if what == "accept" and connection in there:
            continue
        if what == "wait_for_body":
            goes = places.wait_for_body(connection, sender)
            bodies |= {connection} & there
        else:
            goes = getattr(places, what)(connection)
            bodies.discard(connection)
        if what == "accept":
            there.add(connection)
        elif what == "remove":
            goes = connection
        if what in ("accept", "wait_for_body", "remove"):
            there.discard(goes)
            bodies.discard(goes)
        assert len(places) == len(there) <= most + SPARE_CONNECTIONS
        assert sum(map(places.serves, there)) <= most
        assert len(bodies) <= most_bodies


@pytest.mark.parametrize(
    ("open_files", "reserved", "most"),
    [(20_000, 1_024, 18_912), (1_024, 1_024, 704), (256, 1_024, 128), (64, 1_024, 1), (64, 0, 1)],
)
def test_they_leave_files_for_all_else(open_files: int, reserved: int, most: int) -> None:
    assert most_served(open_files, reserved) == most
