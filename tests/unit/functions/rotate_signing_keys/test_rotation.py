"""Rotation logs nobody out: a model of processes that read the secret late, and tokens that live
across rotations.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable

import pytest
from hypothesis import Phase, assume, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from evenflow.functions.rotate_signing_keys.rotation import RotationRefused, check_tokens, rotated
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import AuthenticationFailed

CHANNEL = Channel("tenant", "agent", "session")
Keys = dict[str, str]
Rotate = Callable[[Keys, str, str], Keys]


def key(kid: str) -> str:
    return f"{kid}-".ljust(40, "x")


def as_made(*kids: str) -> Keys:
    return {kid: key(kid) for kid in kids}


def versions(first: Keys, count: int, rotate: Rotate = rotated) -> list[SessionTokens]:
    """What each version of the secret issues and verifies."""
    keys, made = first, []
    for number in range(count):
        made.append(SessionTokens({kid: value.encode() for kid, value in keys.items()}))
        kid = f"fresh{number}"
        keys = rotate(keys, kid, key(kid))
    return made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["a"], ["a", "fresh"]),
        (["a", "b"], ["b", "a", "fresh"]),
        (["current", "previous", "next"], ["next", "current", "fresh"]),
    ],
)
def test_the_order_of_the_keys(before: list[str], after: list[str]) -> None:
    keys = as_made(*before)
    turned = rotated(keys, "fresh", key("fresh"))
    assert list(turned) == after
    assert turned.items() <= as_made(*before, "fresh").items()
    assert list(keys) == before


def test_keys_that_rotation_cannot_keep_are_refused() -> None:
    for count in (0, 4):
        with pytest.raises(RotationRefused, match=f"has {count} keys"):
            rotated(as_made(*"abcd"[:count]), "fresh", key("fresh"))
    with pytest.raises(RotationRefused, match="taken"):
        rotated(as_made("a", "b"), "b", key("other"))


@given(st.integers(1, 12))
def test_key_ids_stay_unique_and_three(rotations: int) -> None:
    keys = as_made("k1")
    for number in range(rotations):
        keys = rotated(keys, f"fresh{number}", key("fresh"))
    assert len(keys) == min(rotations + 1, 3)


FIRST = st.sampled_from([as_made("k1"), as_made("k1", "k2"), as_made("k1", "k0", "k2")])


@given(FIRST, st.integers(1, 6), st.integers(-1, 0), st.integers(-1, 1))
def test_a_token_is_valid_across_neighbouring_versions(
    first: Keys, version: int, issued: int, verified: int
) -> None:
    """Issued by who saw n or n-1; verified by who saw n-1, n or n+1, where no more than one
    rotation lies between them.
    """
    made = versions(first, 8)
    issuer, verifier = version + issued, version + verified
    # Else the issuer read the secret before rotation n, and the verifier after rotation n+1: a
    # period lies between them.
    assume(verifier - issuer <= 1)
    token, _ = made[issuer].issue(CHANNEL, 0, 60)
    assert made[verifier].verify(token, 1).channel == CHANNEL


# -- the same in time ------------------------------------------------------------------------------

PERIOD = 1_000
STORY = st.tuples(
    FIRST,
    st.lists(st.integers(PERIOD, 3 * PERIOD), min_size=1, max_size=6),  # gaps between rotations
    st.integers(0, 8 * PERIOD),  # when the token is issued
    st.integers(0, PERIOD - 1),  # how late its issuer reads the secret
    st.integers(1, PERIOD),  # how long the token lives
    st.integers(0, PERIOD),  # when it is shown, after its issue
    st.integers(0, PERIOD),  # how late that reader reads the secret
)
Story = tuple[Keys, list[int], int, int, int, int, int]


def logged_out(story: Story, rotate: Rotate = rotated) -> bool:
    """Whether a token that is alive is refused."""
    first, gaps, issued_at, issuer_late, life, shown_after, verifier_late = story
    if issuer_late + life > PERIOD or shown_after >= life:
        return False  # outside what rotation promises, or the token has expired
    made = versions(first, len(gaps) + 1, rotate)
    rotations = [sum(gaps[: count + 1]) for count in range(len(gaps))]

    def seen(moment: int) -> SessionTokens:
        return made[bisect.bisect_right(rotations, moment)]

    token, _ = seen(issued_at - issuer_late).issue(CHANNEL, issued_at, life)
    shown_at = issued_at + shown_after
    try:
        seen(shown_at - verifier_late).verify(token, shown_at)
    except AuthenticationFailed:
        return True
    return False


@given(STORY)
def test_nobody_is_logged_out(story: Story) -> None:
    assert not logged_out(story)


def fresh_key_signs_at_once(keys: Keys, kid: str, value: str) -> Keys:
    return {kid: value, **dict(list(keys.items())[:2])}


def old_key_is_dropped(keys: Keys, kid: str, value: str) -> Keys:
    return {**dict(list(keys.items())[-1:]), kid: value}


@pytest.mark.parametrize("careless", [fresh_key_signs_at_once, old_key_is_dropped])
def test_the_model_sees_a_rotation_that_would_log_somebody_out(careless: Rotate) -> None:
    # Any example will do: to look for the smallest takes up to a minute.
    first_found = settings(max_examples=2_000, phases=[Phase.generate])
    try:
        found = find(STORY, lambda story: logged_out(story, careless), settings=first_found)
    except NoSuchExample:
        pytest.fail("the model found nothing wrong with a careless rotation")
    assert not logged_out(found)


# -- what the step testSecret does -----------------------------------------------------------------


def encoded(keys: Keys) -> dict[str, bytes]:
    return {kid: value.encode() for kid, value in keys.items()}


@given(FIRST)
def test_a_rotation_passes_its_own_check(first: Keys) -> None:
    check_tokens(encoded(rotated(first, "fresh", key("fresh"))), encoded(first))


@pytest.mark.parametrize(
    "pending",
    [
        fresh_key_signs_at_once(as_made("k1", "k0", "k2"), "fresh", key("fresh")),
        old_key_is_dropped(as_made("k1", "k0", "k2"), "fresh", key("fresh")),
        as_made("k1", "k2") | {"k1": key("another")},
    ],
)
def test_keys_that_would_log_somebody_out_fail_the_check(pending: Keys) -> None:
    with pytest.raises(AuthenticationFailed):
        check_tokens(encoded(pending), encoded(as_made("k1", "k0", "k2")))
