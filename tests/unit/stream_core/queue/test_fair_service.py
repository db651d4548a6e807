"""What tenants are given by the fair queue and the counters together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.queue.fair_queue import Line
from tests.unit.stream_core.queue.places import OUTPUT_COST, Places

_STEPS = 400
_TOKENS = st.lists(st.integers(1, 30), min_size=1, max_size=8)
_INPUTS = st.lists(st.integers(1, 60), min_size=1, max_size=8)


def jain(shares: list[float]) -> float:
    """Jain's index: 1 where all have the same, 1/n where one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


def widest_gap(places: Places, weights: dict[str, float]) -> float:
    """How much more one of two tenants was given than the other, in whatever stretch of time."""
    first, second = weights
    begun = dict(places.service)
    lead = [0.0]
    for _ in range(_STEPS):
        places.step()
        given = {name: places.service[name] - begun.get(name, 0) for name in weights}
        lead.append(given[first] / weights[first] - given[second] / weights[second])
    return max(lead) - min(lead)


def bound(slots: int, tokens: list[int], inputs: list[int]) -> float:
    """The paper's: twice what the places can hold at once, or the largest input."""
    return 2 * max(*inputs, slots * OUTPUT_COST * max(tokens))


@given(st.integers(1, 6), _TOKENS, _TOKENS, _INPUTS, _INPUTS, st.sampled_from([1, 2, 5]))
def test_of_two_that_always_wait_none_is_ahead_by_more_than_twice_the_largest_answers(
    slots: int, a: list[int], b: list[int], in_a: list[int], in_b: list[int], weight: float
) -> None:
    weights = {"a": weight, "b": 1.0}
    places = Places(slots, weights)
    places.ask_always(Line("a"), a, in_a)
    places.ask_always(Line("b"), b, in_b)
    assert widest_gap(places, weights) <= bound(slots, a + b, in_a + in_b)


@given(st.integers(1, 6), st.integers(2, 12), _TOKENS)
def test_equals_are_given_the_same(slots: int, tenants: int, tokens: list[int]) -> None:
    places = Places(slots)
    for number in range(tenants):
        places.ask_always(Line(f"t{number}"), tokens)
    for _ in range(max(tokens) * tenants * 30):
        places.step()
    assert jain([places.service[f"t{number}"] for number in range(tenants)]) >= 0.99


@given(st.integers(1, 6), _TOKENS, _TOKENS, st.sampled_from([0.25, 2, 7]))
def test_service_is_by_weight(slots: int, a: list[int], b: list[int], weight: float) -> None:
    weights = {"a": weight, "b": 1.0}
    places = Places(slots, weights)
    places.ask_always(Line("a"), a)
    places.ask_always(Line("b"), b)
    for _ in range(max(a + b) * 150):
        places.step()
    assert jain([places.service[name] / weights[name] for name in weights]) >= 0.99


@given(st.integers(1, 6), st.integers(50, 5_000), st.integers(0, 2_000), _TOKENS, _TOKENS)
def test_idleness_saves_up_no_more_than_its_bound(
    slots: int, before: int, saved_up: int, tokens: list[int], late: list[int]
) -> None:
    weights = {"busy": 1.0, "late": 1.0}
    places = Places(slots, saved_up=saved_up)
    while places.service["busy"] < before:
        places.ask(Line("busy"), tokens[0])
        places.step()
    places.ask_always(Line("busy"), tokens)
    places.ask_always(Line("late"), late)
    assert widest_gap(places, weights) <= saved_up + bound(slots, tokens + late, [1])


_ASKED = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(list(ServiceClass)),
        st.integers(1, 12),
        st.integers(0, 3),
    ),
    max_size=80,
)


@given(st.integers(1, 5), _ASKED)
def test_no_place_is_idle_while_somebody_waits_and_everybody_is_answered(
    slots: int, asked: list[tuple[str, ServiceClass, int, int]]
) -> None:
    places = Places(slots)
    answers = []
    for tenant, service_class, tokens, steps in asked:
        answers.append(places.ask(Line(tenant, service_class=service_class), tokens))
        for _ in range(steps):
            idle_before = places.idle
            waiting = len(places.queue)
            places.step()
            assert len(places.queue) == max(0, waiting - idle_before)
    for _ in range(sum(answer.tokens for answer in answers)):
        places.step()
    assert set(places.ended) == set(answers)
    assert len(places.queue) == 0


@given(st.integers(1, 4), st.integers(1, 10))
def test_a_lower_class_that_waits_has_its_share_whatever_the_others_ask(
    slots: int, tokens: int
) -> None:
    places = Places(slots)
    for service_class in ServiceClass:
        places.ask_always(Line(service_class, service_class=service_class), [tokens])
    for _ in range(200 * tokens):
        places.step()
    turns = {name: places.service[name] / sum(places.service.values()) for name in ServiceClass}
    assert turns[ServiceClass.STANDARD] >= 0.045
    assert turns[ServiceClass.BATCH] >= 0.045
    assert turns[ServiceClass.INTERACTIVE] >= 0.88


def test_an_answer_is_charged_by_the_estimate_and_set_right_when_the_usage_is_told() -> None:
    places = Places(1)
    answer = places.ask(Line("a"), 3, input_tokens=100)
    places.step()
    assert places.counters.of("a") == 100 + OUTPUT_COST
    told = answer.meter.update_charged(output_tokens=5, input_tokens=40)
    places.counters.charge("a", told)
    assert places.counters.of("a") == 40 + 5 * OUTPUT_COST
    assert answer.meter.update_charged(output_tokens=5, input_tokens=40) == 0
