"""How many prompts a model is given at once, as its first tokens teach."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from evenflow.stream_core.upstream.calls_on_other_nodes import CallsOnOtherNodes
from evenflow.stream_core.upstream.concurrency_limiter import ConcurrencyLimiter
from tests.unit.seeds import seeds

DELAY = 0.02
A_TOKEN = 0.0001  # seconds, of an engine that computes one prompt after the other
PROMPTS = (200, 1_600, 700, 3_000, 500)


class Engine:
    """Prompts that are given to a model as far as the window allows, and sometimes beyond it."""

    def __init__(self, prefills: ConcurrencyLimiter, seed: int = 1) -> None:
        self.prefills = prefills
        self._random = random.Random(seed)
        self._prompts = self._cycle()
        self.now = 0.0

    def one_after_the_other(self, rounds: int) -> int:
        """Returns the most tokens that were given at once."""
        most = 0
        for _ in range(rounds):
            given = self._begin_some()
            most = max(most, sum(tokens for _, tokens in given))
            for name, tokens in given:
                self.now += tokens * A_TOKEN * self._random.uniform(0.9, 1.1)
                self.prefills.record_first_token(name, self.now)
        return most

    def side_by_side(self, rounds: int) -> int:
        """Returns the most prompts that were given at once."""
        most = 0
        for _ in range(rounds):
            given = self._begin_some()
            most = max(most, len(given))
            began_at = self.now
            for name, _ in given:
                self.now = began_at + self._random.uniform(0.3, 0.9)
                self.prefills.record_first_token(name, self.now)
        return most

    def _begin_some(self) -> list[tuple[str, int]]:
        given: list[tuple[str, int]] = []
        # A tenant that comes is not bound by the window: one more at times.
        while not given or (len(given) < 50 and not self.prefills.window_is_full):
            given.append(self._begin())
        self.prefills.window.record_waiting()
        if self._random.random() < 0.3:
            given.append(self._begin())
        return given

    def _begin(self) -> tuple[str, int]:
        name, tokens = next(self._prompts)
        self.prefills.acquire(name, "busy", "sender", self.now, tokens)
        return name, tokens

    def _cycle(self) -> Iterator[tuple[str, int]]:
        number = 0
        while True:
            number += 1
            yield str(number), self._random.choice(PROMPTS)


def test_where_prompts_wait_for_each_other_one_at_a_time_is_given() -> None:
    engine = Engine(ConcurrencyLimiter(DELAY))
    engine.one_after_the_other(50)
    assert engine.one_after_the_other(200) <= 2 * max(PROMPTS), "one, and who came besides"


def test_a_longer_delay_lets_more_of_them_begin() -> None:
    engine = Engine(ConcurrencyLimiter(prefill_delay=1.0))
    engine.one_after_the_other(50)
    assert 8_000 <= engine.one_after_the_other(200) <= 1.0 / A_TOKEN + 3 * max(PROMPTS)


@pytest.mark.parametrize("seed", seeds(5))
def test_where_they_are_computed_side_by_side_nothing_is_bounded(seed: int) -> None:
    engine = Engine(ConcurrencyLimiter(DELAY), seed)
    engine.side_by_side(100)
    assert engine.side_by_side(50) >= 50


def test_a_model_that_has_moved_to_more_machines_is_found_out() -> None:
    engine = Engine(ConcurrencyLimiter(DELAY))
    engine.one_after_the_other(100)
    engine.side_by_side(300)
    assert engine.side_by_side(50) >= 50


def test_and_one_that_has_moved_to_fewer() -> None:
    engine = Engine(ConcurrencyLimiter(DELAY))
    engine.side_by_side(100)
    engine.one_after_the_other(20)
    assert engine.one_after_the_other(200) <= 2 * max(PROMPTS)


def test_a_task_that_is_not_certain_goes_by_what_others_have_found() -> None:
    alone, among_others = ConcurrencyLimiter(DELAY), ConcurrencyLimiter(DELAY)
    among_others.learn(CallsOnOtherNodes(delay=A_TOKEN), now=0.0)
    for prefills in (alone, among_others):
        prefills.acquire("first", "busy", "sender", 0.0, 500)
        prefills.record_first_token("first", now=0.05)
        prefills.acquire("next", "busy", "sender", 0.1, 300)
    assert (alone.window_is_full, among_others.window_is_full) == (False, True)


def test_nothing_is_learned_of_what_nobody_waits_for() -> None:
    prefills = ConcurrencyLimiter(DELAY)
    for number in range(200):
        prefills.acquire(str(number), "alone", "sender", number, 500)
        prefills.record_first_token(str(number), now=number + 0.05)
    prefills.acquire("long", "busy", "sender", 200.0, 2_000)
    assert prefills.window_is_full


def test_a_call_that_failed_teaches_nothing_when_the_next_one_answers() -> None:
    taught, untaught = ConcurrencyLimiter(DELAY), ConcurrencyLimiter(DELAY)
    for number in range(40):
        for prefills in (taught, untaught):
            for name in ("first", "second"):
                prefills.acquire(f"{name} {number}", "busy", "sender", number, 500)
        for prefills in (taught, untaught):
            if prefills is untaught:
                prefills.discard_latency(f"second {number}")
            prefills.record_first_token(f"first {number}", now=number + 0.05)
            prefills.record_first_token(f"second {number}", now=number + 0.1)
    for prefills in (taught, untaught):
        prefills.acquire("one", "busy", "sender", 50.0, 600)
    assert (taught.window_is_full, untaught.window_is_full) == (True, False)


def test_what_has_no_token_is_counted_by_tenant_until_it_has_one_or_ends() -> None:
    prefills = ConcurrencyLimiter(DELAY)
    for name, tenant in (("1", "a"), ("2", "a"), ("3", "b")):
        prefills.acquire(name, tenant, "sender", 0.0, 600)
    assert (prefills.prefills_of("a"), prefills.prefills_of("b"), prefills.window_is_full) == (
        2,
        1,
        True,
    )
    prefills.record_first_token("1", now=1.0)
    prefills.release("3", "b", "sender")
    for name in ("1", "unknown"):
        prefills.record_first_token(name, now=2.0)
    assert (prefills.prefills_of("a"), prefills.prefills_of("b"), prefills.window_is_full) == (
        1,
        0,
        False,
    )
