"""A model's server that fails again and again is not called for a while."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import (
    EvenflowError,
    InternalError,
    ModelRefused,
    Overloaded,
    RateLimited,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamUnreadable,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from tests.unit.fargate_handler.orchestrator.test_orchestrator import Node
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")

BROKEN = UpstreamFailed("it broke", code="upstream_failed")
LIMITS = Limits(
    breaker_failures=2, breaker_open_seconds=10, model_retries=0, messages_per_second=1000
)


def open_breakers(node: Node) -> float:
    return node.metrics._gauges[catalogue.BREAKERS_OPEN.name]()


async def ask(node: Node, session: str) -> ResponseStream:
    stream = (await node.send("m1", session=session)).stream
    await settle()
    return stream


async def fail(node: Node, *errors: Exception) -> None:
    """As many messages, each of a session of its own, whose only attempt fails so."""
    for error in errors:
        await ask(node, f"s{len(node.source.calls)}")
        node.source.calls[-1].fail(error)
        await settle()


async def test_after_failures_in_a_row_messages_are_refused_and_the_model_is_not_asked() -> None:
    node = Node(LIMITS)
    await fail(node, BROKEN)
    assert open_breakers(node) == 0
    await fail(node, BROKEN)
    assert open_breakers(node) == 1
    with pytest.raises(Overloaded) as refused:
        await node.send("m1", session="next")
    assert (refused.value.code, refused.value.status) == ("upstream_unavailable", 503)
    assert refused.value.retry_after_seconds == 10
    assert "was not accepted" in refused.value.message
    assert len(node.source.calls) == 2
    assert node.metrics.labelled(catalogue.MESSAGES_REFUSED).by_labels == {
        ("upstream_unavailable",): 1
    }


async def test_one_tenant_s_failures_are_its_own() -> None:
    node = Node(LIMITS)
    await fail(node, BROKEN, BROKEN)
    stream = (await node.send("m1", tenant="another")).stream
    await settle()
    node.source.calls[-1].push("Hello")
    node.source.calls[-1].finish()
    await settle()
    assert stream.state is ResponseState.COMPLETED
    assert open_breakers(node) == 0
    assert await node.refusal("m1", session="next") == "upstream_unavailable"


async def test_one_message_tries_and_its_first_token_lets_all_others_through() -> None:
    node = Node(LIMITS)
    await fail(node, BROKEN, BROKEN)
    await node.clock.pass_time(10.0, step=1.0)
    await ask(node, "probe")
    assert await node.refusal("m1", session="meanwhile") == "upstream_unavailable"
    node.source.calls[-1].push("Hello")
    # It is noticed when the generation next looks after its model.
    await node.clock.pass_time(3.5, step=0.5)
    assert open_breakers(node) == 0
    await ask(node, "next")
    assert len(node.source.calls) == 4
    await node.leave()


async def test_a_probe_that_its_client_cancels_leaves_the_next_one_to_try() -> None:
    node = Node(LIMITS)
    await fail(node, BROKEN, BROKEN)
    await node.clock.pass_time(10.0, step=1.0)
    await node.orchestrator.cancel(await ask(node, "probe"))
    await settle()
    assert open_breakers(node) == 1
    await ask(node, "next")
    node.source.calls[-1].finish()
    await settle()
    assert open_breakers(node) == 0


async def test_where_there_is_a_fallback_answer_it_is_given_at_once() -> None:
    node = Node(LIMITS, fallback_text="Later, please.")
    await fail(node, BROKEN, BROKEN)
    stream = await ask(node, "next")
    assert (stream.state, stream.degraded) == (ResponseState.COMPLETED, True)
    assert len(node.source.calls) == 2


async def test_what_waited_in_the_queue_when_it_opened_ends_with_the_error() -> None:
    node = Node(LIMITS.model_copy(update={"generations_per_node": 1}))
    *_, waiting = [(await node.send("m1", session=name)).stream for name in "abc"]
    for _ in range(2):
        await settle()
        node.source.calls[-1].fail(BROKEN)
    await settle()
    assert len(node.source.calls) == 2
    assert waiting.error is not None
    assert (waiting.error["code"], waiting.error["type"]) == (
        "upstream_unavailable",
        "overloaded_error",
    )
    assert waiting.error["retry_after_ms"] == 10_000


async def test_the_failure_that_opens_it_is_not_tried_again_and_stays_the_answer_s_error() -> None:
    node = Node(LIMITS.model_copy(update={"model_retries": 5}))
    stream = await ask(node, "s")
    for _ in range(2):
        node.source.calls[-1].fail(BROKEN)
        await settle()
    assert stream.error is not None
    assert stream.error["code"] == "upstream_failed"
    assert len(node.source.calls) == 2


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ModelRefused("too long", code="context_length_exceeded"), id="the request"),
        pytest.param(
            UpstreamAnswered("busy", code="upstream_throttled", status=429, type=RateLimited.type),
            id="a quota",
        ),
        pytest.param(UpstreamRejected("wrong key", code="model_not_set_up"), id="our settings"),
        pytest.param(UpstreamUnreadable("no chunk", code="upstream_failed"), id="one answer"),
        pytest.param(InternalError("a fault of ours", code="internal_error"), id="our code"),
    ],
)
async def test_what_is_not_the_upstream_s_fault_opens_nothing(error: EvenflowError) -> None:
    node = Node(LIMITS)
    await fail(node, *[error] * 5)
    assert open_breakers(node) == 0


async def test_a_deadline_of_the_request_opens_nothing() -> None:
    node = Node(LIMITS.model_copy(update={"model_deadline_seconds": 5.0}))
    for session in "abc":
        await ask(node, session)
        await node.clock.pass_time(6.0, step=0.5)
    assert (len(node.source.calls), open_breakers(node)) == (3, 0)


async def test_answers_that_break_off_together_are_all_tried_again() -> None:
    """As when the server is started again."""
    node = Node(LIMITS.model_copy(update={"model_retries": 1}))
    streams = [await ask(node, session) for session in "abcde"]
    for call in tuple(node.source.calls):
        call.push("half")
        call.fail(BROKEN)
    await settle()
    assert (len(node.source.calls), open_breakers(node)) == (10, 0)
    for call in node.source.calls[5:]:
        call.push("whole")
        call.finish()
    await settle()
    assert {stream.log.read(0).text for stream in streams} == {"whole"}


async def test_a_server_that_hangs_opens_it() -> None:
    node = Node(LIMITS.model_copy(update={"model_first_sign_seconds": 5.0}))
    for session in "ab":
        await ask(node, session)
        await node.clock.pass_time(6.0, step=0.5)
    assert open_breakers(node) == 1


@pytest.mark.parametrize(("waited", "times"), [(15.0, [15_000]), (5.0, [])])
async def test_who_gives_up_after_a_long_wait_had_no_token_for_so_long(
    waited: float, times: list[float]
) -> None:
    node = Node(Limits())
    stream = await ask(node, "s")
    await node.clock.pass_time(waited, step=0.5)
    await node.orchestrator.cancel(stream)
    await settle()
    first_token = node.metrics.distribution(catalogue.FIRST_TOKEN)
    assert first_token.count == len(times)
    assert first_token.total == pytest.approx(sum(times), abs=600)


async def test_failed_attempts_are_counted_by_their_code_and_throttled_ones_apart() -> None:
    node = Node(LIMITS)
    throttled = UpstreamAnswered(
        "busy", code="slow_down", status=429, type=RateLimited.type, retry_after_ms=60_000
    )
    await fail(node, BROKEN, throttled)
    assert node.metrics.labelled(catalogue.UPSTREAM_FAILURES).by_labels == {
        ("slow_down",): 1,
        ("upstream_failed",): 1,
    }
    assert node.count(catalogue.UPSTREAM_THROTTLES) == 1


async def test_an_answer_that_its_own_time_cuts_off_is_no_failure_of_the_model() -> None:
    node = Node(LIMITS)
    terms = MessageTerms(timeout_ms=2_000)
    event = IncomingMessage(Channel("t", "demo", "s"), "m1", None, "hi", terms=terms)
    stream = (await node.orchestrator.submit(event)).stream
    await settle()
    node.source.calls[0].push("Hel")
    await node.clock.pass_time(3.5, step=0.5)
    assert (stream.state, stream.finish_reason) == (ResponseState.COMPLETED, "length")
    assert node.metrics.labelled(catalogue.UPSTREAM_FAILURES).by_labels == {}
