"""What a task knows of each model's server."""

from __future__ import annotations

from evenflow.fargate_handler.orchestrator.upstream import Upstream, Upstreams
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.upstream.calls_elsewhere import CallsElsewhere
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource

SENDER = ("acme", "10.0.0.1")


def upstreams() -> Upstreams:
    return Upstreams(ControlledSource(), Limits(breaker_failures=1))


def test_each_model_has_its_own_breaker() -> None:
    models = upstreams()
    assert models.breakers_open == 0
    models.of("a").breaker.call(SENDER, 0.0).failed(0.0)
    models.of("b").breaker.call(SENDER, 0.0).succeeded()
    assert models.breakers_open == 1
    assert models.of("a").breaker.refuses_for(SENDER, 0.0) > 0
    assert models.of("b").breaker.refuses_for(SENDER, 0.0) == 0


def running(model: Upstream, count: int) -> Upstream:
    for _ in range(count):
        model.ceiling.begin()
    return model


def test_each_model_has_its_own_ceiling_and_the_lowest_is_told() -> None:
    models = upstreams()
    assert models.lowest_ceiling == 0
    for model, count in (("small", 3), ("large", 9)):
        running(models.of(model), count).throttled(0.0, 0.0, retry_after=1.0)
    assert models.lowest_ceiling == 2
    assert models.of("small") is models.of("small")
    assert models.of("other").ceiling.has_room(0.0)


def test_a_refusal_tells_of_the_ceiling_and_of_the_slots() -> None:
    model = running(upstreams().of("m"), 33)
    model.throttled(1.0, 0.0, None)
    assert (model.ceiling.limit, model.prefills.slots.limit) == (32, 32)
    model.ceiling.end()
    assert not model.takes(1.0, False, "t")
    assert not model.takes(1.0, True, "t")
    model.ceiling.end()
    assert model.takes(1.0, False, "t")
    assert model.takes(1.0, True, "t")


def test_where_tenants_share_a_server_a_ceiling_of_one_task_bounds_less_than_the_slots() -> None:
    """It was found while other tasks had most of the room."""
    model = running(upstreams().of("m"), 3)
    model.prefills.slots.elsewhere = CallsElsewhere(
        running=29, task="a", wanted={"a": {"t": 9}, "b": {"t": 29}}
    )
    model.throttled(1.0, 0.0, None)
    model.prefills.slots.elsewhere = CallsElsewhere()
    assert (model.ceiling.limit, model.prefills.slots.limit) == (2, 31)
    assert not model.takes(1.0, False, "t")
    assert model.takes(1.0, True, "t")
    model.ceiling.pause(1.0, 2.0)
    assert not model.takes(2.9, True, "t")
    assert not model.takes(2.9, True, "t", goes_on=True)


def test_while_no_slots_are_known_a_server_at_its_ceiling_is_full_for_all() -> None:
    model = running(upstreams().of("m"), 3)
    model.throttled(1.0, 0.0, None)
    model.prefills.slots.limit = None  # it was forgotten
    assert (model.ceiling.limit, model.full(shared=True), model.full(shared=False)) == (
        2,
        True,
        True,
    )
    model.ceiling.end()
    model.ceiling.end()
    assert not model.full(shared=True)
    assert not model.full(shared=False)


def test_what_goes_on_needs_no_slot() -> None:
    model = running(upstreams().of("m"), 8)
    model.prefills.slots.limit = 8
    assert not model.takes(0.0, True, "t")
    assert model.takes(0.0, True, "t", goes_on=True)
