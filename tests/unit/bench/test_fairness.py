"""How fairness is judged, and how long the engine that it is measured with takes."""

from __future__ import annotations

from typing import Any

import pytest

from bench.fairness import virtual_time
from bench.fairness.engine import Costs, Engine, Request
from bench.fairness.judge import Service, jain, jain_of_windows, largest_gap, service_gap
from bench.fairness.load import LONGEST_PROMPT, recorded
from bench.fairness.scenarios import CHAT, Plan, equal, quiet

_COSTS = Costs(step=1.0, sequence=0.1, prompt_token=0.01, sequences=2, tokens=100)


def _even(per_second: float, seconds: int) -> Service:
    return Service.of((float(second), per_second) for second in range(seconds))


def test_jains_index_is_one_for_equal_shares_and_one_nth_for_one_who_has_all() -> None:
    assert jain([5, 5, 5, 5]) == 1.0
    assert jain([0, 8, 0, 0]) == 0.25
    assert jain([1, 2, 3]) == pytest.approx(36 / 42)


def test_nothing_given_is_not_fair() -> None:
    with pytest.raises(ValueError, match="nobody"):
        jain([0, 0])


def test_each_window_is_judged_by_what_was_given_in_it() -> None:
    first = Service.of([(0.0, 10.0), (10.0, 30.0)])
    second = Service.of([(9.0, 10.0), (19.0, 10.0)])
    indices = jain_of_windows({"a": first, "b": second}, 0.0, 20.0)
    assert len(indices) == 11
    assert indices[0] == 1.0
    assert indices[-1] == pytest.approx(40**2 / (2 * (30**2 + 10**2)))


def test_shares_by_weight_are_fair() -> None:
    services = {"one": _even(10, 20), "four": _even(40, 20)}
    weights = {"one": 1.0, "four": 4.0}
    assert jain_of_windows(services, 0.0, 20.0, weights) == pytest.approx([1.0] * 11)
    assert max(jain_of_windows(services, 0.0, 20.0)) < 0.8


def test_a_stretch_without_room_for_a_window_is_not_judged() -> None:
    with pytest.raises(ValueError, match="shorter"):
        jain_of_windows({"a": _even(1, 5)}, 0.0, 5.0)


def test_the_gap_is_the_largest_of_any_stretch_not_the_one_at_the_end() -> None:
    one = Service.of([(0.0, 100.0), (3.0, 50.0)])
    other = Service.of([(1.0, 80.0), (2.0, 90.0), (4.0, 60.0)])
    # From 1 to 4 the other was given 180 more; in the end it has 80 more.
    assert service_gap(one, other, 0.0, 10.0) == 180
    assert service_gap(other, one, 0.0, 10.0) == 180
    assert largest_gap([one, one, other], 0.0, 10.0) == 180
    assert service_gap(one, one, 0.0, 10.0) == 0


def test_a_prompt_is_taken_in_chunks_and_gives_the_first_token() -> None:
    engine = Engine(_COSTS)
    request = Request(prompt=150, answer=2)
    engine.add(request)
    steps = [engine.step(float(now)) for now in range(3)]
    assert [len(step.answered) for step in steps] == [0, 1, 1]
    assert [step.seconds for step in steps] == pytest.approx([2.0, 1.6, 1.1])
    assert request.ended
    assert engine.idle


def test_a_step_takes_longer_with_more_sequences_and_others_wait_outside() -> None:
    engine = Engine(_COSTS)
    requests = [Request(prompt=10, answer=3) for _ in range(3)]
    for request in requests:
        engine.add(request)
    assert engine.step(0.0).seconds == pytest.approx(1.4)
    assert (engine.running, engine.waiting) == (2, 1)
    assert engine.step(1.4).seconds == pytest.approx(1.2)
    engine.step(2.6)
    engine.step(3.7)
    assert [request.admitted for request in requests] == [0.0, 0.0, 3.7]


def test_prompts_have_what_answers_leave_of_a_step() -> None:
    engine = Engine(_COSTS)
    engine.add(Request(prompt=10, answer=9))
    engine.step(0.0)
    late = Request(prompt=100, answer=1)
    engine.add(late)
    assert len(engine.step(1.0).answered) == 1
    assert late.prefilled == 99
    assert engine.step(2.0).answered[-1] is late


def test_each_step_computes_a_preferred_prompt_before_others() -> None:
    engine = Engine(_COSTS)
    first, preferred = Request(prompt=150, answer=1), Request(150, 1, preferred=True)
    engine.add(first)
    engine.step(0.0)
    engine.add(preferred)
    engine.step(2.0)
    assert (first.prefilled, preferred.prefilled) == (100, 100)
    engine.step(4.0)
    assert (first.prefilled, preferred.prefilled) == (150, 150)


def test_who_leaves_is_neither_run_nor_waited_for() -> None:
    engine = Engine(_COSTS)
    requests = [Request(prompt=10, answer=3) for _ in range(3)]
    for request in requests:
        engine.add(request)
    engine.step(0.0)
    for request in requests:
        engine.remove(request)
    assert engine.idle


def test_a_greedy_tenant_asks_a_hundred_times_as_often_what_the_trace_has() -> None:
    quiet, greedy = recorded("quiet", 1.0, 30.0), recorded("greedy", 100.0, 30.0)
    assert (len(quiet), len(greedy)) == (30, 3_000)
    assert quiet[0].after == greedy[0].after == 0.0
    assert 25 < quiet[-1].after < 30
    assert 29 < greedy[-1].after < 30
    sizes = [(order.prompt, order.answer) for order in greedy]
    assert sizes[::7][:30] == [(order.prompt, order.answer) for order in quiet]
    assert sizes[:100] == sizes[500:600]
    assert max(prompt for prompt, _ in sizes) == LONGEST_PROMPT


def test_in_virtual_time_each_run_has_the_same_figures() -> None:
    async def asked(spread: virtual_time.Spread) -> dict[str, object]:
        async with virtual_time.system(spread, tasks=2, places=24) as system:
            return await quiet(system, 3.0, beside=CHAT)

    one, same, other = (virtual_time.run(seed, asked) for seed in (1, 1, 2))
    assert one == same != other
    assert one["answered"] == one["asked"] == 3
    assert one["greedy_asked"] == 300


def test_before_a_service_that_refuses_a_quiet_tenant_waits_for_nobody() -> None:
    """By default, with one task, in the first seconds of a flood, too."""

    async def asked(spread: virtual_time.Spread) -> list[dict[str, object]]:
        async with virtual_time.system(spread, tasks=1, places=None, fleet=True) as system:
            return [await quiet(system, 8.0), await quiet(system, 8.0, beside=CHAT)]

    alone, beside = (it["first_token_ms"] for it in virtual_time.run(1, asked))
    assert beside == alone


def test_three_tasks_that_know_nothing_share_a_service_fairly_from_the_start() -> None:
    """By default. One of four tenants asks for long answers, and is given no more for that."""

    async def asked(spread: virtual_time.Spread) -> dict[str, Any]:
        async with virtual_time.system(spread, tasks=3, places=None, fleet=True) as system:
            return await equal(system, Plan(waiting=21.0))

    shares = virtual_time.run(0, asked)
    assert shares["jain_lowest"] >= 0.99
    assert shares["gap"] <= 3 * shares["largest"]
