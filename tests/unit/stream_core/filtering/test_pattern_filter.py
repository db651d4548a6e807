"""What patterns let through doesn't depend on how the text is cut, and no secret is in it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.filtering.groups import GROUPS, Group
from evenflow.stream_core.filtering.known_patterns import patterns_of
from evenflow.stream_core.filtering.pattern import REDACTED, Pattern, Patterns
from evenflow.stream_core.filtering.pattern_filter import PatternFilter
from evenflow.stream_core.filtering.port import FilterAction, StopAnswer
from tests.filtering.planted import KINDS, core_of, planted_secret

_SECRETS = Patterns(patterns_of(["secrets"]))
_ALL = Patterns(patterns_of(GROUPS))
_WORDS = (
    *(
        "Keep ",
        "it risk-free",
        " sk-",
        "AKIA",
        "AKIA12",
        "-----BEGIN",
        "eyJ",
        "xoxb-1-",
        "https:/",
    ),
    *("4111 1111 ", "4111111111111111", " me@", "me@example.org", ".", "\n", " ", "x", "ghp_a"),
    *(
        "DE89 3704 0044 0532 0130 00",
        "078-05-1120",
        "+49 30 901820",
        "é",
        "🙂",
        "-----END KEY-----",
    ),
)


def filtered(pieces: Iterable[str], patterns: Patterns = _SECRETS) -> str:
    """What comes out, of all pieces."""
    taking = PatternFilter(patterns)
    return "".join([*map(taking.push, pieces), taking.finish()])


def cut(text: str, places: Iterable[int]) -> list[str]:
    """The text, cut at these places."""
    ends = sorted({0, *(place % (len(text) + 1) for place in places), len(text)})
    return [text[first:end] for first, end in pairwise(ends)]


def texts() -> st.SearchStrategy[str]:
    """Texts with beginnings of secrets, whole ones, and prose."""
    secrets = st.builds(
        lambda seed, kind: planted_secret(Random(seed), kind),
        st.integers(0, 999),
        st.integers(0, KINDS - 1),
    )
    return st.lists(st.sampled_from(_WORDS) | secrets | st.text(max_size=5), max_size=12).map(
        "".join
    )


@given(texts(), st.lists(st.integers(0, 5_000), max_size=40))
def test_however_a_text_is_cut_the_same_comes_out(text: str, places: list[int]) -> None:
    assert filtered(cut(text, places), _ALL) == filtered([text], _ALL)


@given(texts())
def test_cut_into_its_characters_the_same_comes_out(text: str) -> None:
    assert filtered(text, _ALL) == filtered([text], _ALL)


@pytest.mark.parametrize("kind", range(KINDS))
def test_a_secret_cut_anywhere_is_never_seen(kind: int) -> None:
    secret = planted_secret(Random(kind), kind)
    text = f"Here it is: {secret}, keep it."
    for place in range(len(text)):
        told = filtered([text[:place], text[place:]])
        assert core_of(secret) not in told
        assert told == f"Here it is: {REDACTED}, keep it."


def test_prose_comes_out_as_it_came() -> None:
    text = "A risk-free task: ask for sk-, AKIA or eyJ. The BEGIN PRIVATE KEY line begins a key.\n"
    assert filtered(text) == text


def test_only_what_may_become_a_match_is_held_back() -> None:
    taking = PatternFilter(_SECRETS)
    assert taking.push("the key AK") == "the key "
    assert taking.push("IA12") == ""
    assert taking.push("; no") == "AKIA12; no"
    assert taking.finish() == ""


def test_at_the_end_what_is_no_match_comes_out_and_a_match_does_not() -> None:
    assert filtered(["AKIA123456789012345"]) == "AKIA123456789012345"
    assert filtered(["AKIA1234567890123456"]) == REDACTED


def test_a_match_longer_than_any_bound_is_redacted_as_it_comes() -> None:
    taking = PatternFilter(_SECRETS)
    told = taking.push("pypi-AgEIcHlwaS5vcmc") + "".join(taking.push("abcd") for _ in range(5_000))
    assert told == ""
    assert taking.push(" and on") == REDACTED + " and on"


def test_a_block_without_an_end_does_not_swallow_the_answer() -> None:
    block = "-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 64
    told = filtered([block, "b" * 20_000, " the end"])
    assert told.startswith(REDACTED)
    assert told.endswith("b the end")
    assert len(told) < 4_000


def test_a_match_that_begins_in_text_that_stands_is_redacted_from_there_on() -> None:
    taking = PatternFilter(_SECRETS, "shown before a kill: AKIA1234")
    assert taking.push("567890123456") + taking.finish() == REDACTED


def test_a_match_may_end_the_answer_behind_its_cleared_text() -> None:
    names: list[str] = []
    taking = PatternFilter(_SECRETS, action=FilterAction.STOP, on_match=names.append)
    with pytest.raises(StopAnswer) as stopped:
        taking.push("It is AKIA1234567890123456 or")
    assert (stopped.value.cleared, names) == ("It is ", ["aws"])


@pytest.mark.parametrize(
    ("group", "match", "none"),
    [
        ("card", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("iban", "DE89 3704 0044 0532 0130 00", "DE88 3704 0044 0532 0130 00"),
        ("ssn", "078-05-1120", "666-05-1120"),
        ("email", "ann.lee+x@mail.example.org", "ann@home"),
        ("phone", "+49 30 901820", "10.5 to 20"),
    ],
)
def test_each_group_knows_its_matches_by_their_check_digits(
    group: Group, match: str, none: str
) -> None:
    patterns = Patterns(patterns_of([group]))
    assert filtered(f"it is {match}, yes", patterns) == f"it is {REDACTED}, yes"
    assert filtered(f"it is {none}, yes", patterns) == f"it is {none}, yes"


def test_of_two_patterns_at_one_place_the_first_that_is_valid_counts() -> None:
    patterns = Patterns(
        [
            Pattern("odd", "[0-9]{1,4}", "[odd]", is_valid=lambda text: int(text) % 2 == 1),
            Pattern("any", "[0-9]{1,2}", "[any]"),
        ]
    )
    assert filtered(["13", "57 24", "68"], patterns) == "[odd] [any][any]"
