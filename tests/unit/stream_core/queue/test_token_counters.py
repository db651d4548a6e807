"""What is expected of answers that run counts, until it has come."""

from __future__ import annotations

from evenflow.stream_core.queue.fair_queue import FairQueue, Line
from evenflow.stream_core.queue.token_counters import AnswerMeter, TokenCounters


def test_what_is_expected_is_in_the_counter_until_it_has_come_or_will_not() -> None:
    counters, meter = TokenCounters(lambda _: 2.0), AnswerMeter(input_tokens=10)
    counters.charge("a", meter.update_charged(0))
    counters.add_expected("a", meter.update_expected(100))
    assert counters.of("a") == (10 + 200) / 2
    assert counters.expected("a") == 200
    counters.charge("a", meter.update_charged(30))
    counters.add_expected("a", meter.update_expected(70))
    assert counters.of("a") == (10 + 200) / 2
    counters.add_expected("a", meter.update_expected(0))
    assert counters.of("a") == (10 + 60) / 2
    assert counters.served == {"a": 70}
    assert counters.expected("a") == 0


def test_who_comes_is_lifted_to_what_others_were_given_not_to_what_they_expect() -> None:
    counters = TokenCounters(saved_up=lambda _: 20)
    counters.charge("a", 70)
    counters.add_expected("a", 500)
    counters.record_arrival("b", ["a"])
    assert counters.of("b") == 50


def test_who_was_idle_begins_little_behind_and_no_further_behind_each_time() -> None:
    counters = TokenCounters(lambda _: 2.0, saved_up=lambda _: 200)
    counters.charge("busy", 10_000)
    for _ in range(3):
        counters.record_arrival("late", ["busy"])
        counters.charge("late", 100)
    assert counters.of("late") == (10_000 - 200 + 300) / 2


def test_who_was_given_least_may_be_given_what_is_between_it_and_the_next_one() -> None:
    counters = TokenCounters(lambda tenant: 2.0 if tenant == "heavy" else 1.0)
    for tenant, service in {"a": 100.0, "b": 60.0, "heavy": 40.0}.items():
        counters.charge(tenant, service)
    assert counters.least_served(["a", "b", "heavy"]) == ("heavy", 80)
    assert counters.least_served(["a", "b"]) == ("b", 40)
    assert counters.least_served(["a"]) is None


def test_one_with_long_answers_has_no_more_turns_before_their_tokens_come() -> None:
    counters = TokenCounters()
    queue: FairQueue[str] = FairQueue(100, counters)
    for tenant in ("long", "short"):
        for _ in range(20):
            queue.put(Line(tenant), tenant)
    taken = []
    for _ in range(22):
        taken.append(tenant := queue.take() or "")
        counters.add_expected(tenant, 1_000 if tenant == "long" else 100)
    assert (taken.count("long"), taken.count("short")) == (2, 20)


def test_places_for_others_are_for_those_whose_turn_comes_before_the_greedy_one_s() -> None:
    counters = TokenCounters(lambda tenant: 4.0 if tenant == "heavy" else 1.0)
    queue: FairQueue[str] = FairQueue(100, counters)
    for tenant in ("heavy", "light"):
        queue.put(Line(tenant), tenant)
        counters.charge(tenant, 100)
    assert queue.take(excluded=("heavy", "")) is None, "it was given more, for its weight"
    counters.charge("heavy", 400)
    assert queue.take(excluded=("heavy", "")) == "light"
