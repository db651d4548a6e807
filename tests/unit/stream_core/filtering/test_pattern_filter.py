"""What patterns let through doesn't depend on how the text is cut, and no secret is in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.filtering.cpu_budget import CpuBudget
from evenflow.stream_core.filtering.groups import GROUPS, Group
from evenflow.stream_core.filtering.known_patterns import patterns_of
from evenflow.stream_core.filtering.pattern import (
    REDACTED,
    Expression,
    Pattern,
    Patterns,
    PatternTooSlow,
)
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
            Pattern("odd", "[0-9]{1,4}", "[odd]", valid_length=_length_of_odd),
            Pattern("any", "[0-9]{1,2}", "[any]"),
        ]
    )
    assert filtered(["13", "57 24", "68"], patterns) == "[odd] [any][any]"


def _length_of_odd(text: str) -> int:
    return len(text) if int(text) % 2 else 0


def test_of_a_match_only_its_valid_beginning_is_replaced() -> None:
    pattern = Pattern("five", "[0-9]{1,20}", "[5]", valid_length=lambda text: text.find("5") + 1)
    assert filtered(["12", "535x", "6"], Patterns([pattern])) == "[5][5]x6"


# -- where models write what is looked for ---------------------------------------------------------

_FOUND: dict[Group, tuple[str, ...]] = {
    "email": ("jane.doe@example.com", "jörg@müller.de", "почта@пример.рф", "a+b@x.co.uk"),
    "card": (
        "4111 1111 1111 1111",
        "4111111111111111",
        "4111.1111.1111.1111",
        "378282246310005",
        "3782 822463 10005",
    ),
    "iban": ("DE89 3704 0044 0532 0130 00", "BE68 5390 0754 7034", "de89370400440532013000"),
    "ssn": ("123-45-6789", "123 45 6789"),
    "phone": ("+49 30 1234567", "(555) 123-4567", "+14155552671", "+1(555)123-4567"),
    "secrets": (
        "evf_ee7b4541_QesumQ_RXrPxQq-lp4s-JITcVst9dETPsalMaMA2L1w",
        "sk-ant-api03-" + "aB3_" * 20,
        "sk-proj-abcDEF0123456789abcDEF012345_-abcT3BlbkFJabc_-EF0123456789",
        "sk-" + "a1B2" * 5 + "T3BlbkFJ" + "c3D4" * 5,
        "sk-my-project-" + "a1B2" * 5 + "T3BlbkFJ" + "c3D4" * 5,
        "sk-" + "0123456789abcdef" * 2,
        "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
        "hf_abcdEFGHijklMNOPqrstUVWXyz012345ab",
        "github_pat_11ABCDEFG0" + "a1B2c3D4e5" * 6,
        "gsk_" + "a1B2c3D4" * 6,
        "npm_" + "a1B2c3D4e5F6" * 3,
        "AKIAIOSFODNN7EXAMPLE",
    ),
}
_CONTEXTS = (
    *("{} ok", "It is {}.", "_{}_", "**{}**", "__{}__", "`{}`", '"{}"', "({})", "key={}&b=1"),
    *(
        "密钥{}结束",
        "これは{}です",
        "키는 {}입니다",
        "№ {}",
        "🔑{}🔑",
        "|{}|",
        "<b>{}</b>",
        "a\n{}\nb",
    ),
    *(
        "key-{} ok",
        "no.{} ok",
        "k_{} ok",
        '{{"a":"x\\n{}"}}',
        "a\u00a0{}\u00a0b",
        "{}, 12/27",
        "{0},{0}",
    ),
)


@pytest.mark.parametrize(
    ("group", "text"), [(group, text) for group, texts in _FOUND.items() for text in texts]
)
def test_it_is_found_wherever_models_write_it(group: Group, text: str) -> None:
    for context in _CONTEXTS:
        said = context.format(text)
        told = filtered(said, _PATTERNS_OF[group])
        assert REDACTED in told, said
        assert core_of(text) not in told, said
        # A name may belong to it, as to an address, and so does the escape of a line's end.
        before = said.partition(text)[0].removesuffix("\\n")
        assert told.startswith(re.sub(r"[a-z_.-]*\Z", "", before)), said


_LONG_KEY = "sk-proj-" + "A1b2C3d4E5" * 8 + "T3BlbkFJ" + "A1b2C3d4E5" * 8


@pytest.mark.parametrize("promptly", [0, 64])
@pytest.mark.parametrize("key", [*_FOUND["secrets"], _LONG_KEY])
def test_a_key_is_redacted_with_the_first_text_behind_it(key: str, promptly: int) -> None:
    taking = PatternFilter(_SECRETS, promptly=promptly)
    assert "".join(map(taking.push, f"it is {key}x9")) == "it is "  # it may still grow
    assert taking.push(" and") == f"{REDACTED} and"
    assert taking.push(" on.") == " on."


@pytest.mark.parametrize("key", [*_FOUND["secrets"], _LONG_KEY])
def test_a_key_cut_at_any_place_is_the_same_as_a_whole_one(key: str) -> None:
    text = f"it is {key} and on"
    for place in range(len(text)):
        assert filtered([text[:place], text[place:]]) == f"it is {REDACTED} and on"
    assert filtered([f"it is {key}"]) == f"it is {REDACTED}"


@pytest.mark.parametrize("lazy", ["{2,50}?", "*?", "+?", "{2,}?"])
def test_a_lazy_pattern_waits_for_no_text_that_it_cannot_match(lazy: str) -> None:
    taking = PatternFilter(Patterns([Pattern("own", f"id-[A-Za-z]{lazy}END[0-9]")]))
    assert taking.push("id-abcdE") == ""
    assert taking.push("N and on") == "id-abcdEN and on"
    assert taking.push(" id-abEN") == " "
    assert taking.push("D7.") == f"{REDACTED}."


def test_a_pattern_with_signs_that_only_look_lazy_keeps_its_meaning() -> None:
    pattern = Pattern("own", r"x\+?[*?]{2}[]+?]\\?(?#y+?z)a+?b??c")
    assert filtered(["x+*?", "?\\aac", " x?*]abc y"], Patterns([pattern])) == (
        f"{REDACTED} {REDACTED} y"
    )


_PATTERNS_OF = {group: Patterns(patterns_of([group])) for group in GROUPS}


@pytest.mark.parametrize(
    "between", ["\u00a0", "\u202f", "\u2009", "\u3000", "-", "\u2010", "\u2011", "–", "—", "－"]
)
def test_parts_of_numbers_are_separated_by_any_space_or_dash(between: str) -> None:
    numbers: dict[Group, str] = {
        "card": "4111 1111 1111 1111",
        "ssn": "123 45 6789",
        "phone": "+49 30 1234567",
        "iban": "DE89 3704 0044 0532 0130 00",
    }
    for group, number in numbers.items():
        told = filtered(f"it is {number.replace(' ', between)}, yes", _PATTERNS_OF[group])
        assert told == f"it is {REDACTED}, yes", (group, told)


@pytest.mark.parametrize(
    ("before", "number", "behind"),
    [
        ("番号は", "４１１１－１１１１－１１１１－１１１１", "です"),
        ("電話", "０９０－１２３４－５６７８", "まで"),
    ],
)
def test_wide_digits_are_digits(before: str, number: str, behind: str) -> None:
    assert filtered(before + number + behind, _ALL) == before + REDACTED + behind


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("4111 1111 1111 1111 12/27 123", f"{REDACTED} 12/27 123"),
        ("4111111111111111 123", f"{REDACTED} 123"),
        ("BE68 5390 0754 7034 BIC GEBA", f"{REDACTED} BIC GEBA"),
        ("DE89370400440532013000 and so on", f"{REDACTED} and so on"),
    ],
)
def test_what_follows_a_number_does_not_hide_it(said: str, told: str) -> None:
    assert filtered(said, Patterns(patterns_of(["card", "iban"]))) == told


@pytest.mark.parametrize(
    "text",
    [
        "A risk-adjusted-return-on-capital-figure, and sk-toggleable__label-arrow of a sheet.",
        "0.4111111111111111 and 3.14159265358979323846, 1-411111111111 or 2024-01-15.",
        "550e8400-e29b-41d4-a716-446655440000 is a UUID, ab12cdef3456789012345678 is a hash.",
        "git commit 3f786850e387550fdab836ed7e6dc881de23001b; pa-IN, fc-42, hv.x, dp.pt, AC12.",
        "The pattern is done; do_v1_ is no key, npm_config_registry and secret_santa neither.",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert (
        filtered(text, Patterns(patterns_of(["secrets", "card", "iban", "ssn", "email"]))) == text
    )


# -- what it costs ---------------------------------------------------------------------------------


class Counting(Expression):
    """Counts the characters that it is given to search."""

    def __init__(self, expression: Expression) -> None:
        self._whole, self._beginning = expression._whole, expression._beginning
        self.searched = 0

    def undecided_from(self, text: str, position: int, seconds: float) -> int:
        found = super().undecided_from(text, position, seconds)
        self.searched += found - position + 1
        if found < len(text):
            self.searched += len(text) - found
        return found

    def unmatched_until(self, text: str, position: int, seconds: float) -> int | None:
        self.searched += 2 * (len(text) - position)
        return super().unmatched_until(text, position, seconds)

    def search(self, text: str, position: int, seconds: float) -> tuple[int, int] | None:
        found = super().search(text, position, seconds)
        self.searched += (len(text) if found is None else found[1]) - position
        return found


_HOSTILE = (
    *("sk-" * 700, "eyJ" * 700, "a." * 1_000, "a@" * 1_000, "a-.@" * 500, "+1" * 1_000),
    *("41-" * 700, "4 " * 1_000, "xoxb-1-" * 300, "-----BEGIN " * 200, "glagent-" + "a" * 900),
    *("sk-abcdefgh " * 200, f"sk-{'a1B2' * 25} " * 20, "sk-abT3BlbkFJ" * 200),
    *("DE89 AAAA " * 200, "AKIA" * 500, "AKIA1234567890123456 " * 100, "(12) 345 (" * 200),
)


@pytest.mark.parametrize("step", [1, 64, 10_000])
@pytest.mark.parametrize("text", _HOSTILE)
def test_each_character_is_searched_a_bounded_number_of_times(text: str, step: int) -> None:
    patterns = Patterns(patterns_of(GROUPS))
    counting = patterns.any_of_all = Counting(patterns.any_of_all)
    filtered((text[first : first + step] for first in range(0, len(text), step)), patterns)
    assert counting.searched < 50 * len(text)


def _no_time() -> float:
    return 0.0


def test_once_the_budget_is_spent_text_is_held_to_the_end() -> None:
    spent: list[bool] = []
    budget = CpuBudget(_no_time, lambda: spent.append(True))
    taking = PatternFilter(_SECRETS, budget=budget)
    assert taking.push("It is ") == "It is "
    budget.charge(0, 1_000.0)
    assert (taking.push("so, "), taking.push("AKIA1234567890123456"), spent) == ("", "", [True])
    assert taking.finish() == f"so, {REDACTED}"


def test_a_pattern_that_takes_too_long_spends_the_budget_and_loses_nothing() -> None:
    class Slow(Expression):
        def unmatched_until(self, text: str, position: int, seconds: float) -> int | None:
            if "slow" in text:
                raise PatternTooSlow
            return super().unmatched_until(text, position, seconds)

    patterns = Patterns([Pattern("x", "x{3}")])
    patterns.any_of_all = Slow("(x{3})")
    budget = CpuBudget(_no_time)
    taking = PatternFilter(patterns, budget=budget)
    assert taking.push("a xx") == "a "
    assert taking.push("x is slow") == ""
    assert budget.is_spent
    assert taking.finish() == f"{REDACTED} is slow"
