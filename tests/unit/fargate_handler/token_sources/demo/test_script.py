from __future__ import annotations

from itertools import islice
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenflow.fargate_handler.token_sources.demo.script import (
    answer_script,
    demo_tokens,
    directed_script,
    is_directive,
    split_tokens,
)
from evenflow.stream_core.base.errors import ModelRefused, UpstreamFailed


@given(st.text())
@example("Größe, 流れ 👩‍👩‍👧  \n\t— e\u0301_\u00a0\x00\x1c\u2028 end ")
def test_tokens_joined_are_the_text(text: str) -> None:
    assert "".join(split_tokens(text)) == text


@given(st.text())
def test_tokens_are_short_and_none_is_empty(text: str) -> None:
    for token in split_tokens(text):
        assert token
        assert len(token.lstrip()) <= 7


def test_words_keep_the_space_before_them() -> None:
    assert split_tokens("Even flow, now.") == ["Even", " flow", ",", " now", "."]


@given(st.integers(-(2**63), 2**63), st.integers(0, 200))
def test_the_same_seed_gives_the_same_tokens(seed: int, count: int) -> None:
    assert demo_tokens(seed, count) == demo_tokens(seed, count)
    assert len(demo_tokens(seed, count)) == count


def test_another_seed_gives_other_words() -> None:
    assert demo_tokens(1, 50) != demo_tokens(2, 50)


def test_without_directives_it_is_a_hundred_tokens_every_50_ms() -> None:
    script = directed_script("#demo", 1)
    assert script.tokens == demo_tokens(1, 100)
    assert list(islice(script.gaps_ms, 3)) == [50, 50, 50]
    assert (script.first_token_ms, script.stops_after, script.failure, script.hangs) == (
        10,
        None,
        None,
        False,
    )


def test_every_directive_is_obeyed() -> None:
    script = directed_script("#demo tokens=7 seed=3 first_token_ms=0 gap_ms=5 jitter_ms=2", 1)
    assert script.tokens == demo_tokens(3, 7)
    assert script.first_token_ms == 0
    gaps = list(islice(script.gaps_ms, 200))
    assert all(3 <= gap <= 7 for gap in gaps)
    assert len(set(gaps)) > 100


def test_it_fails_in_as_many_attempts_as_it_is_told() -> None:
    text = "#demo fail_after=2 fail_attempts=2"
    scripts = [directed_script(text, attempt) for attempt in (1, 2, 3)]
    assert [script.stops_after for script in scripts] == [2, 2, None]
    assert [script.failure is not None for script in scripts] == [True, True, False]


def test_it_hangs_in_every_attempt_when_it_is_told_to() -> None:
    for attempt in (1, 2):
        script = directed_script("#demo hang_after=6", attempt)
        assert (script.stops_after, script.failure, script.hangs) == (6, None, True)


def test_it_may_fail_at_first_and_hang_afterwards() -> None:
    text = "#demo fail_after=2 hang_after=6"
    assert [directed_script(text, attempt).stops_after for attempt in (1, 2)] == [2, 6]


def test_jitter_never_makes_a_gap_negative() -> None:
    assert min(islice(directed_script("#demo gap_ms=1 jitter_ms=100", 1).gaps_ms, 500)) == 0.0


def test_bursty_is_the_timing_of_a_real_model() -> None:
    gaps = list(islice(directed_script("#demo bursty=true", 1).gaps_ms, 5000))
    assert all(gap == 2.0 or 20 <= gap <= 80 or 150 <= gap <= 400 for gap in gaps)
    assert 2.0 in gaps, "bursts"
    assert max(gaps) >= 150, "stalls"


def test_the_same_directives_give_the_same_timing() -> None:
    one, other = (directed_script("#demo seed=5 jitter_ms=20", 1) for _ in range(2))
    assert list(islice(one.gaps_ms, 50)) == list(islice(other.gaps_ms, 50))


@pytest.mark.parametrize(
    "text",
    [
        "#demo refuse=true",
        "#demo tokens=-1",
        "#demo tokens=100001",
        "#demo tokens=many",
        "#demo tokens",
        "#demo =5",
        "#demo tokens=",
        "#demo token=5",
        "#demo gap_ms=-1",
        "#demo gap_ms=nan",
        "#demo gap_ms=inf",
        "#demo seed=1.5",
        "#demo tokens=5 and then some prose",
    ],
)
def test_what_it_is_told_not_to_or_does_not_understand_it_refuses(text: str) -> None:
    with pytest.raises(ModelRefused) as refusal:
        directed_script(text, 1)
    assert refusal.value.code == "model_refused"


@pytest.mark.parametrize(
    ("text", "steers"),
    [
        ("#demo", True),
        ("#demo tokens=5", True),
        ("#demo\ntokens=5", True),
        ("What is #demo?", False),
        ("#democracy matters", False),
        ("", False),
    ],
)
def test_only_a_message_that_begins_with_the_word_steers_the_model(text: str, steers: bool) -> None:
    assert is_directive(text) is steers


@given(st.text(max_size=300), st.integers())
def test_an_answer_is_its_text_with_a_real_model_s_timing(answer: str, seed: int) -> None:
    script = answer_script(answer, Random(seed))
    assert "".join(script.tokens) == answer
    assert 250 <= script.first_token_ms <= 600
    assert all(gap > 0 for gap in islice(script.gaps_ms, 50))
    assert (script.stops_after, script.failure, script.hangs) == (None, None, False)


@given(st.integers(1, 30), st.data())
def test_behind_any_beginning_comes_the_rest_and_it_stops_where_it_would_have(
    count: int, data: st.DataObject
) -> None:
    script = directed_script(
        f"#demo tokens={count} fail_after={data.draw(st.integers(0, count))}", attempt=1
    )
    text = "".join(script.tokens)
    until = "".join(script.tokens[: script.stops_after])
    given_already = data.draw(st.integers(0, len(until)))
    rest = script.behind(text[:given_already])
    assert "".join(rest.tokens) == text[given_already:]
    assert "".join(rest.tokens[: rest.stops_after]) == until[given_already:]
    assert rest.failure == script.failure


def test_a_beginning_that_is_another_answer_s_is_not_continued() -> None:
    script = directed_script("#demo tokens=5", attempt=1)
    for prefix in ("something else", "".join(script.tokens) + " and more"):
        with pytest.raises(UpstreamFailed):
            script.behind(prefix)


def test_a_bound_ends_it_as_a_model_ends() -> None:
    script = directed_script("#demo tokens=9 seed=5", 1)
    tokens = demo_tokens(5, 9)
    assert script.bounded(None, ()) is script
    assert script.bounded(9, ()) is script
    shorter = script.bounded(4, ())
    assert (shorter.tokens, shorter.reason) == (tokens[:4], "length")
    assert shorter.behind("".join(tokens[:3])).tokens == tokens[3:4]


def test_it_ends_before_the_first_stop_text() -> None:
    script = directed_script("#demo tokens=9 seed=5", 1)
    text = "".join(script.tokens)
    stopped = script.bounded(None, (text[20:25], text[11:16]))
    assert ("".join(stopped.tokens), stopped.reason) == (text[: text.index(text[11:16])], "stop")
    assert script.bounded(None, (text[:3],)).tokens == []
    assert script.bounded(2, ("nowhere",)).reason == "length"


def test_a_failure_comes_only_where_the_bound_does_not_come_before() -> None:
    script = directed_script("#demo tokens=9 fail_after=5", 1)
    assert script.bounded(4, ()).failure is None
    assert script.bounded(5, ()).failure is None
    assert script.bounded(6, ()).failure is not None
    assert directed_script("#demo tokens=9 hang_after=5", 1).bounded(5, ()).hangs is False
