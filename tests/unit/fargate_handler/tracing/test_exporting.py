from __future__ import annotations

from random import Random

import pytest
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import SpanKind

from evenflow.fargate_handler.tracing.exporting import USUAL_SHARE, sampler
from evenflow.fargate_handler.tracing.spans import remote_parent

_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def _is_sampled(trace_id: int, traceparent: str = "") -> bool:
    chosen = sampler({})
    assert chosen is not None
    decided = chosen.should_sample(remote_parent(traceparent), trace_id, "answer", SpanKind.SERVER)
    return decided.decision is Decision.RECORD_AND_SAMPLE


def test_where_the_environment_says_nothing_one_in_twenty_is_sampled() -> None:
    random = Random(1)
    sampled = sum(_is_sampled(random.getrandbits(128)) for _ in range(10_000))
    assert sampled / 10_000 == pytest.approx(USUAL_SHARE, abs=0.01)


@pytest.mark.parametrize("flags", ["00", "01"])
def test_a_client_s_own_decision_comes_before_that(flags: str) -> None:
    traceparent = f"00-{_TRACE}-00f067aa0ba902b7-{flags}"
    assert _is_sampled(int(_TRACE, 16), traceparent) == (flags == "01")


def test_the_environment_comes_before_both() -> None:
    assert sampler({"OTEL_TRACES_SAMPLER": "always_on"}) is None
