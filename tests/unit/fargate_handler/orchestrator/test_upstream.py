"""What a node knows of each model's server."""

from __future__ import annotations

from evenflow.fargate_handler.orchestrator.upstream import Upstreams
from evenflow.stream_core.base.limits import Limits
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource

SENDER = ("acme", "10.0.0.1")


def upstreams() -> Upstreams:
    return Upstreams(ControlledSource(), Limits(breaker_failures=1))


def test_each_model_has_its_own_breaker() -> None:
    models = upstreams()
    assert models.breakers_open == 0
    models.of("a").breaker.call(SENDER, 0.0).record_failure(0.0)
    models.of("b").breaker.call(SENDER, 0.0).record_success()
    assert models.breakers_open == 1
    assert models.of("a").breaker.open_for(SENDER, 0.0) > 0
    assert models.of("b").breaker.open_for(SENDER, 0.0) == 0


def test_each_model_has_its_own_limit_and_the_lowest_is_published() -> None:
    models = upstreams()
    assert models.lowest_share == 0
    for model, count in (("small", 3), ("large", 9)):
        limiter = models.of(model).limiter
        for number in range(count):
            limiter.acquire(str(number), "t", SENDER, 0.0, None)
        limiter.record_rejection(0.0, 0.0, retry_after=1.0)
    assert models.lowest_share == 2
    assert models.of("small") is models.of("small")
    assert models.of("other").limiter.may_start("t", 0.0)
