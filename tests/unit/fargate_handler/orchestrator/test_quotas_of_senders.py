"""What a tenant's messages are charged, from their acceptance to the end of their answers."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import (
    IncomingMessage,
    ReceivedRequest,
    WholeRequest,
    single_channel,
)
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelOptions
from evenflow.stream_core.base.agents import MessageParams, MessageTerms
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.channel import COMPLETION
from evenflow.stream_core.base.errors import EvenflowError, RateLimited, UpstreamFailed
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.session.conversation import Turn
from evenflow.stream_core.tenants.charges import Caller, TokenDemand
from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Tenant
from tests.unit.fargate_handler.orchestrator.scripted_stores import UNREACHABLE
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Shared, Task
from tests.unit.settle import settle

_MINUTE = QuotaLimits(requests_per_minute=10, tokens_per_minute=10_000)
_TERMS = MessageTerms(params=MessageParams(max_tokens=500), user="ann", key="k1")
# Three bytes for each, and eight tokens for the turn.
_100_TOKENS = "abc" * 92
_BROKEN = UpstreamFailed("it broke", code="upstream_failed")

pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")


async def a_task(limits: QuotaLimits = _MINUTE, **node: int) -> Task:
    return await joined(Shared(), "a", limits, **node)


async def joined(shared: Shared, name: str, limits: QuotaLimits = _MINUTE, **node: int) -> Task:
    task = await Task.join(shared, name, Limits(**node) if node else None)
    task.tenants.replace([Tenant(id=CHANNEL.tenant, limits=limits)])
    return task


async def send(task: Task, message_id: str = "m1", previous: str | None = None) -> None:
    """A message of 100 tokens that asks for at most 500."""
    event = IncomingMessage(CHANNEL, message_id, previous, _100_TOKENS, terms=_TERMS)
    await task.orchestrator.submit(event)
    await settle()


def left(task: Task) -> list[int]:
    states = task.quotas.states(Caller(CHANNEL.tenant), task.clock.now)
    return [state.remaining for state in states]


async def test_what_was_reserved_is_corrected_by_what_the_model_says() -> None:
    task = await a_task()
    await send(task)
    assert left(task) == [9, 10_000 - 600]
    task.source.calls[0].push("a")
    task.source.calls[0].end.set_result(ModelFinish("stop", Usage(120, 30)))
    await settle()
    assert left(task) == [9, 10_000 - 150]
    await task.leave()


async def test_a_model_that_does_not_count_is_counted_by_its_pieces() -> None:
    task = await a_task()
    await send(task)
    await task.answer("one")
    assert left(task) == [9, 10_000 - 101]
    await task.leave()


async def test_a_model_that_failed_costs_a_request_and_no_tokens() -> None:
    task = await a_task()
    await send(task)
    for attempt in range(2):
        task.source.calls[attempt].fail(_BROKEN)
        await settle()
    assert left(task) == [9, 10_000]
    await task.leave()


async def test_what_the_model_is_told_again_is_part_of_the_estimate() -> None:
    task = await a_task()
    await send(task)
    await task.answer("abc" * 2)
    before = left(task)[1]
    await send(task, "m2", "m1")
    assert before - left(task)[1] == 500 + 100 + (100 + 10)
    await task.leave()


async def test_a_message_that_comes_again_is_charged_once() -> None:
    task = await a_task()
    for _ in range(3):
        await send(task)
    assert left(task)[0] == 9
    await task.answer("one")
    for _ in range(3):
        await send(task)
    assert left(task)[0] == 9
    await task.leave()


async def test_a_message_that_another_task_has_is_not_charged_here() -> None:
    a = await a_task()
    b = await joined(a.shared, "b")
    await send(a)
    await send(b)
    assert left(b) == [10, 10_000]
    await a.leave()


async def test_a_message_that_could_not_be_put_on_record_gets_everything_back() -> None:
    task = await a_task(QuotaLimits(requests_per_minute=1, answers_at_once=1))
    task.shared.sessions.network.failures["accept"] = UNREACHABLE
    with pytest.raises(EvenflowError, match="store"):
        await send(task)
    assert left(task) == [1]
    del task.shared.sessions.network.failures["accept"]
    await send(task)
    await task.leave()


async def test_a_message_whose_generation_could_not_begin_gets_everything_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = await a_task(QuotaLimits(requests_per_minute=1, tokens_per_minute=600))
    monkeypatch.setattr(task.workload.generations, "add", None)
    with pytest.raises(TypeError):
        await send(task)
    assert left(task) == [1, 600]
    task.assert_idle()


@pytest.mark.parametrize("of", ["tenant", "key", "user"])
async def test_a_refusal_keeps_nothing_and_the_message_may_come_again(of: str) -> None:
    task, one = await a_task(), QuotaLimits(requests_per_minute=1)
    none = QuotaLimits()
    record = Tenant(
        id=CHANNEL.tenant,
        limits=one if of == "tenant" else none,
        user_limits=one if of == "user" else none,
        keys=(ApiKey.of_text("k1", "secret", limits=one if of == "key" else none),),
    )
    task.tenants.replace([record])
    await send(task)
    with pytest.raises(RateLimited) as refusal:
        await send(task, "m2", "m1")
    assert (refusal.value.code, refusal.value.retry_after_ms) == (f"{of}_limit", 60_000)
    assert [entry.message_id for entry in await task.shared.ledger()] == ["m1"]
    await task.answer("one")
    await task.clock.pass_time(60.0, step=1.0)
    await send(task, "m2", "m1")
    await task.leave()


async def test_a_tenants_own_bound_is_in_the_place_of_the_nodes() -> None:
    task = await a_task(QuotaLimits(answers_at_once=2), messages_in_flight_per_tenant=1)
    await send(task)
    await send(task, "m2", "m1")
    with pytest.raises(RateLimited) as refusal:
        await send(task, "m3", "m2")
    assert refusal.value.extra["limit"] == "tenant.answers_at_once"
    await task.answer("one", 0)
    await send(task, "m3", "m2")
    await task.leave()


async def test_a_request_asks_for_what_it_brings_and_for_all_its_choices() -> None:
    task = await a_task()
    tool = {"type": "function", "function": {"name": "abc"}}  # 45 bytes
    options = ModelOptions(max_tokens=100, tools=(tool,), passed={"n": 3})
    asked = WholeRequest((Turn("system", "abc" * 5), Turn("user", "abc" * 5)), options)
    assert asked.demand == TokenDemand(2 * 13 + 15, 100, choices=3)
    channel = single_channel(CHANNEL.tenant, "1")
    request = ReceivedRequest.of(asked)
    event = IncomingMessage.of_request(channel, "m", request, kind=COMPLETION)
    await task.orchestrator.submit(event)
    assert left(task) == [9, 10_000 - 41 - 300]
    await task.leave()


@pytest.mark.parametrize(
    ("passed", "tokens"),
    [
        ({"response_format": {"type": "json_object"}}, 8),
        ({"documents": ["abc" * 100]}, 102),
        ({"chat_template": "abc" * 100}, 101),
        ({"reasoning_effort": "low", "top_k": 5, "store": False}, 0),
        ({"metadata": {"a": "b" * 300}, "logit_bias": {"1": 5}, "user": "c" * 100}, 0),
    ],
)
def test_what_the_model_may_read_of_a_parameter_is_estimated(
    passed: dict[str, Any], tokens: int
) -> None:
    asked = WholeRequest((Turn("user", "abc"),), ModelOptions(passed=passed))
    assert asked.demand.input_tokens == 9 + tokens


@pytest.mark.parametrize("longest", [0, -10_000_000])
async def test_an_answer_of_no_length_at_all_says_nothing_of_its_length(longest: int) -> None:
    asked = WholeRequest((Turn("user", "abc"),), ModelOptions(max_tokens=longest))
    assert asked.demand == TokenDemand(9)


async def test_an_answer_longer_than_any_is_counted_as_the_longest_that_there_are() -> None:
    asked = WholeRequest((Turn("user", "abc"),), ModelOptions(max_tokens=2**63 - 1))
    assert asked.demand == TokenDemand(9, 10_000_000), "a store's counters end there"


async def test_no_more_is_reserved_than_the_model_may_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = await a_task()
    monkeypatch.setattr(task.orchestrator._dispatcher, "_longest", 200)
    await send(task)
    assert left(task) == [9, 10_000 - 100 - 200]
    await task.leave()


@pytest.mark.parametrize("left_in_order", [False, True])
async def test_whoever_takes_an_answer_over_counts_it_and_charges_nothing(
    left_in_order: bool,
) -> None:
    limits = QuotaLimits(answers_at_once=1, tokens_per_minute=10_000)
    a = await a_task(limits)
    await send(a)
    await a.clock.pass_time(2.0, step=0.05)  # it has told the others of its answer
    if left_in_order:
        before = left(a)
        await a.hand_over()
        assert left(a) == before
    else:
        a.cut_off()
    b = await joined(a.shared, "b", limits)
    await b.clock.pass_time(5.0, step=0.05)
    with pytest.raises(RateLimited) as refusal:
        await send(b, "m2", "m1")
    assert refusal.value.extra["limit"] == "tenant.answers_at_once"
    await b.answer("one.")
    assert left(b) == [10_000]
    await send(b, "m2", "m1")
    await b.leave()


async def test_within_a_second_a_bound_holds_over_all_tasks() -> None:
    limits = QuotaLimits(requests_per_minute=60, tokens_per_minute=60_000)
    a = await joined(Shared(), "a", limits)
    b = await joined(a.shared, "b", limits)
    for task, message, previous in ((a, "m1", None), (b, "m2", "m1")):
        await send(task, message, previous)
        await task.answer("one")
    # They hear of each other.
    await a.clock.pass_time(4.0, step=0.05)
    for number in range(3, 13):
        await send(a, f"m{number}", f"m{number - 1}")
        await a.answer("one")
    before, _ = left(b)
    await a.clock.pass_time(1.1, step=0.05)
    # One a second drains.
    assert before - 10 <= left(b)[0] <= before - 8
    a.assert_idle()
    b.assert_idle()
