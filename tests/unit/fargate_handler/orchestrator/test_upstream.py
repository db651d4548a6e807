"""What a task knows of each model's server."""

from __future__ import annotations

from fargate_handler.orchestrator.upstream import Upstreams
from stream_core.policy.limits import Limits
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource


def upstreams() -> Upstreams:
    return Upstreams(ControlledSource(), Limits(breaker_failures=1))


def test_each_model_has_its_own_breaker() -> None:
    models = upstreams()
    assert models.breakers_open == 0
    models.of("a").breaker.call(0.0).failed(0.0)
    models.of("b").breaker.call(0.0).succeeded()
    assert models.breakers_open == 1
    assert models.of("a").breaker.refuses_for(0.0) > 0
    assert models.of("b").breaker.refuses_for(0.0) == 0


def test_each_model_has_its_own_ceiling_and_the_lowest_is_told() -> None:
    models = upstreams()
    assert models.lowest_ceiling == 0
    for model, count in (("small", 3), ("large", 9)):
        ceiling = models.of(model).ceiling
        for _ in range(count):
            ceiling.begin()
        ceiling.throttled(0.0, retry_after=1.0)
    assert models.lowest_ceiling == 2
    assert models.of("small") is models.of("small")
    assert models.of("other").ceiling.has_room(0.0)
