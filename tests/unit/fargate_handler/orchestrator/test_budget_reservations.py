"""Budgets and usage of answers that end, fail, change hands or are never accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.stream_core.base.agents import MessageParams, MessageTerms
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import (
    EvenflowError,
    ModelRefused,
    UpstreamFailed,
    UpstreamTimeout,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.budget import Reservation, ReservationRequest
from evenflow.stream_core.tenants.charges import Caller
from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Tenant
from evenflow.stream_core.tenants.usage import UsageRecord
from tests.unit.fargate_handler.orchestrator.scripted_stores import UNREACHABLE
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Shared, Task
from tests.unit.settle import settle

STEP = 16
INPUT = 9
"""What the message `hi` is estimated at."""
LIMITS = Limits(store_interval_ms=150, reserved_tokens=STEP)
DAY = "1970-01-01"
TOKENS = f"tokens/{DAY}/tenant"
SWEEP = 12.0


def shared(tokens_per_day: int | None = 1_000, **fields: object) -> Shared:
    """Stores of tasks whose tenant `t` may have so many tokens a day."""
    stores = Shared()
    limits = QuotaLimits(tokens_per_day=tokens_per_day)
    stores.tenants.replace([Tenant.model_validate({"id": "t", "limits": limits, **fields})])
    return stores


async def ask(
    task: Task, session: str = "s", longest: int | None = None, **terms: str
) -> ResponseStream:
    """Send the message `hi`, whose answer is read here."""
    said = MessageTerms(params=MessageParams(max_tokens=longest), **terms)  # type: ignore[arg-type]
    event = IncomingMessage(Channel("t", "demo", session), "m1", None, "hi", terms=said)
    stream = (await task.orchestrator.submit(event)).stream
    task.read(stream)
    await settle()
    return stream


async def refusal(task: Task, session: str = "s", longest: int | None = None) -> EvenflowError:
    """Why the message is refused."""
    with pytest.raises(EvenflowError) as refused:
        await ask(task, session, longest)
    await settle()
    return refused.value


async def committed(stores: Shared, counter: str = TOKENS) -> int:
    """What is spent and reserved."""
    return (await stores.usage.committed("t", [counter]))[counter]


async def used(stores: Shared) -> list[UsageRecord]:
    """All usage records."""
    return list(await stores.usage.records("t", DAY))


async def reserved(stores: Shared) -> Mapping[str, int]:
    """The tokens that are reserved, by answer."""
    found = await stores.usage.reservations("t")
    return {each.response_id: each.amounts[TOKENS] for each in found}


async def test_the_most_that_an_answer_may_cost_is_reserved_and_its_end_settles_it() -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    stream = await ask(task, longest=100, user="ann", key="k1")
    assert await reserved(stores) == {stream.response_id: INPUT + 100}
    assert await committed(stores) == INPUT + 100
    await task.answer("Hello.")
    await task.clock.pass_time(1.0)
    assert (await reserved(stores), await committed(stores)) == ({}, INPUT + 1)
    (record,) = await used(stores)
    assert (record.user, record.key, record.state, record.epoch) == ("ann", "k1", "completed", 1)
    assert (record.input_tokens, record.output_tokens) == (INPUT, 1)
    assert record.tokens_counted_by == "pieces"


async def test_rates_budgets_turns_and_usage_have_one_estimate_of_a_message() -> None:
    stores = shared()
    limits = QuotaLimits(tokens_per_day=1_000, input_tokens_per_minute=1_000)
    stores.tenants.replace([Tenant(id="t", limits=limits)])
    task = await Task.join(stores, limits=LIMITS)
    terms = MessageTerms(params=MessageParams(max_tokens=100))
    for message_id, previous, tokens in (("m1", None, INPUT), ("m2", "m1", 3 * INPUT)):
        before = task.quotas.states(Caller("t"), task.clock.now)[0].remaining
        event = IncomingMessage(Channel("t", "demo", "s"), message_id, previous, "hi", terms=terms)
        stream = (await task.orchestrator.submit(event)).stream
        task.read(stream)
        await settle()
        assert await reserved(stores) == {stream.response_id: tokens + 100}
        assert before - task.quotas.states(Caller("t"), task.clock.now)[0].remaining == tokens
        await task.answer("ok")
        await task.clock.pass_time(1.0)
    assert [record.input_tokens for record in await used(stores)] == [INPUT, 3 * INPUT]
    # A token of the answers counts twice.
    assert task.metrics.labelled(catalogue.SERVICE_CHARGED).by_labels == {("t",): 4 * INPUT + 4}


@pytest.mark.parametrize(
    ("failure", "tokens"),
    [
        (ModelRefused("no", code="model_refused"), 0),
        (UpstreamFailed("it broke", code="upstream_failed"), 0),
        (UpstreamTimeout("too late", code="model_timeout"), INPUT),
    ],
)
async def test_a_model_that_gave_nothing_costs_what_it_was_asked_if_it_was_at_work(
    failure: EvenflowError, tokens: int
) -> None:
    stores = shared()
    limits = QuotaLimits(tokens_per_day=1_000, tokens_per_minute=1_000)
    stores.tenants.replace([Tenant(id="t", limits=limits)])
    task = await Task.join(stores, limits=LIMITS.model_copy(update={"model_retries": 0}))
    await ask(task, longest=100)
    task.source.calls[0].fail(failure)
    await settle()
    assert task.quotas.states(Caller("t"), task.clock.now)[0].remaining == 1_000 - tokens
    await task.clock.pass_time(1.0)
    assert [record.input_tokens for record in await used(stores)] == [tokens]
    assert await committed(stores) == tokens


async def test_an_answer_that_is_cancelled_before_its_model_is_asked_costs_no_tokens() -> None:
    stores = shared()
    limits = QuotaLimits(tokens_per_day=1_000, tokens_per_minute=1_000)
    stores.tenants.replace([Tenant(id="t", limits=limits)])
    one_place = LIMITS.model_copy(update={"generations_per_node": 1})
    task = await Task.join(stores, limits=one_place)
    running = await ask(task, "s1", longest=100)
    stream = await ask(task, "s2", longest=100)
    await task.orchestrator.cancel(stream)
    await settle()
    before = task.quotas.states(Caller("t"), task.clock.now)[0].remaining
    assert before == 1_000 - INPUT - 100, "what runs"
    await task.clock.pass_time(1.0)
    assert list(await reserved(stores)) == [running.response_id]
    assert [record.input_tokens for record in await used(stores)] == [0]


async def test_what_does_not_fit_is_refused_until_the_next_period_and_nothing_is_kept() -> None:
    stores = shared(150)
    task = await Task.join(stores, limits=LIMITS)
    await ask(task, "s1", longest=100)
    refused = await refusal(task, "s2", longest=100)
    assert (refused.status, refused.code) == (429, "budget_exhausted")
    assert refused.retry_after_ms == pytest.approx(86_400_000 - 1000 * task.clock.now, abs=2_000)
    assert "daily budget of this tenant" in refused.message
    assert await committed(stores) == INPUT + 100
    assert await stores.ledger(Channel("t", "demo", "s2")) == []
    await ask(task, "s2", longest=20)


async def test_a_tenant_in_shadow_is_counted_and_never_refused() -> None:
    stores = shared(10, shadow=True)
    task = await Task.join(stores, limits=LIMITS)
    await ask(task, longest=100)
    assert await committed(stores) == INPUT + 100


async def test_a_tenant_without_budgets_has_records_and_nothing_is_reserved() -> None:
    stores = shared(None)
    task = await Task.join(stores, limits=LIMITS)
    await ask(task)
    assert await reserved(stores) == {}
    await task.answer("Hello.")
    await task.clock.pass_time(1.0)
    assert [record.output_tokens for record in await used(stores)] == [1]


async def test_a_tenant_that_is_removed_is_asked_nothing_more_and_pays_for_what_runs() -> None:
    stores = shared(user_limits=QuotaLimits(tokens_per_day=1_000))
    task = await Task.join(stores, limits=LIMITS)
    await ask(task, "s1", user="ann", key="k1")
    stores.tenants.replace([], removed={"t"}, closed=True)
    with pytest.raises(EvenflowError) as refused:
        await ask(task, "s2", user="ann", key="k1")
    assert (refused.value.status, refused.value.code) == (403, "tenant_removed")
    await task.answer("Hello.")
    await task.clock.pass_time(1.0)
    assert [record.output_tokens for record in await used(stores)] == [1]
    assert await reserved(stores) == {}


async def test_nothing_is_recorded_of_who_has_neither_a_record_nor_a_key() -> None:
    stores = Shared()
    task = await Task.join(stores, limits=LIMITS)
    await ask(task)
    await task.answer("Hello.")
    await task.clock.pass_time(1.0)
    assert await used(stores) == []


async def test_a_key_and_a_user_have_budgets_of_their_own() -> None:
    key = ApiKey.of_text("k1", "secret", limits=QuotaLimits(tokens_per_day=120))
    stores = shared(None, keys=(key,), user_limits=QuotaLimits(tokens_per_day=60))
    task = await Task.join(stores, limits=LIMITS)
    await ask(task, "s1", 40, user="ann", key="k1")
    with pytest.raises(EvenflowError, match="of this user"):
        await ask(task, "s2", 40, user="ann", key="other")
    await ask(task, "s3", 40, user="bob", key="k1")
    with pytest.raises(EvenflowError, match="of this key"):
        await ask(task, "s4", 40, user="cid", key="k1")


async def test_a_model_without_a_price_is_refused_where_a_budget_is_in_dollars() -> None:
    stores = shared(None, limits=QuotaLimits(dollars_per_month=1))
    task = await Task.join(stores, limits=LIMITS)
    refused = await refusal(task)
    assert (refused.status, refused.code) == (400, "model_without_price")


async def test_a_reservation_grows_with_its_answer_while_there_is_anything_left() -> None:
    stores = shared(INPUT + 2 * STEP)
    task = await Task.join(stores, limits=LIMITS)
    stream = await ask(task)
    assert await committed(stores) == INPUT + STEP
    (call,) = task.source.calls
    for _ in range(STEP - STEP // 4):
        call.push("a")
    await settle()
    assert await committed(stores) == INPUT + 2 * STEP
    for _ in range(2 * STEP):
        call.push("b")
        await settle()
    await settle()
    assert (stream.state, stream.finish_reason) == (ResponseState.COMPLETED, "budget")
    assert stream.tokens == 2 * STEP
    await task.clock.pass_time(1.0)
    (record,) = await used(stores)
    assert (record.finish_reason, record.output_tokens) == ("budget", 2 * STEP)
    assert await committed(stores) == INPUT + 2 * STEP


async def test_a_reservation_that_another_node_released_by_mistake_is_made_again() -> None:
    """A node that was suspended while it accepted the message seems lost, without an answer."""
    stores = shared(INPUT + 2 * STEP)
    task = await Task.join(stores, limits=LIMITS)
    stream = await ask(task)
    await stores.usage.release(stream.channel.tenant, stream.response_id)
    assert await committed(stores) == 0
    for _ in range(STEP):
        task.source.calls[0].push("a")
    await settle()
    assert await committed(stores) == INPUT + 2 * STEP
    await task.answer("z")
    assert (stream.finish_reason, stream.tokens) == ("stop", STEP + 1)


async def test_a_model_that_is_quicker_than_the_store_pauses_and_goes_on() -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    stream = await ask(task)
    for _ in range(STEP):
        task.source.calls[0].push("a")
    assert stream.paused
    await settle()
    assert not stream.paused
    await task.answer("z")
    assert (stream.finish_reason, stream.tokens) == ("stop", STEP + 1)


async def test_a_message_that_is_not_accepted_gives_back_what_was_reserved() -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    stores.sessions.network.failures["accept"] = UNREACHABLE
    assert (await refusal(task, longest=100)).code == "store_unavailable"
    await settle()
    assert (await reserved(stores), await committed(stores)) == ({}, 0)


async def test_nothing_is_accepted_against_a_budget_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)

    async def unreachable(*_: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(stores.usage, "reserve", unreachable)
    assert (await refusal(task)).code == "store_unavailable"
    assert await stores.ledger() == []


async def test_an_end_waits_for_its_usage_and_its_readers_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    stream = await ask(task)
    settled, tries = stores.usage.settle, 0

    async def once_unreachable(record: UsageRecord, counters: list[str]) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StoreUnavailable
        await settled(record, counters)

    monkeypatch.setattr(stores.usage, "settle", once_unreachable)
    await task.answer("Hello.")
    assert stream.state is ResponseState.COMPLETED
    assert (await stores.head(stream.response_id)).ending is None
    await task.clock.pass_time(3.0)
    assert (await stores.head(stream.response_id)).ending is not None
    assert len(await used(stores)) == 1


async def test_a_cancelled_answer_is_settled_by_what_it_gave() -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    stream = await ask(task, longest=100)
    task.source.calls[0].push("a", "b")
    await task.orchestrator.cancel(stream)
    await task.clock.pass_time(1.0)
    (record,) = await used(stores)
    assert (record.state, record.output_tokens) == ("cancelled", 2)
    assert (await reserved(stores), await committed(stores)) == ({}, INPUT + 2)


async def test_what_a_killed_task_reserved_for_nobody_is_released_and_what_runs_is_not() -> None:
    stores = shared()
    a = await Task.join(stores, "a", limits=LIMITS)
    stream = await ask(a, longest=100)
    # Another one was killed between the reservation and the acceptance of its message.
    await stores.memory.renew("c", stores.clock.now + 1_000.0)
    await stores.usage.reserve(
        ReservationRequest(Reservation("t", "rsp_left", "c", 0.0, {TOKENS: 50}))
    )
    b = await Task.join(stores, "b", limits=LIMITS)
    await b.clock.pass_time(SWEEP / 2, step=0.05)
    assert set(await reserved(stores)) == {stream.response_id, "rsp_left"}  # its lease is in force
    await b.clock.pass_time(SWEEP, step=0.05)
    assert set(await reserved(stores)) == {stream.response_id}
    a.cut_off()
    await b.clock.pass_time(SWEEP, step=0.05)
    assert set(await reserved(stores)) == {stream.response_id}
    await b.answer("Hello.")
    await b.clock.pass_time(1.0)
    assert (await reserved(stores), await committed(stores)) == ({}, INPUT + 1)


async def test_answers_of_a_killed_task_are_not_asked_for_one_by_one() -> None:
    stores = shared()
    a = await Task.join(stores, "a", limits=LIMITS)
    for number in range(9):
        await ask(a, session=f"s{number}", longest=100)
    b = await Task.join(stores, "b", limits=LIMITS)
    b.responses.network.hold("take_over")  # the store has much to do
    a.cut_off()
    b.responses.network.calls.clear()
    await b.clock.pass_time(2 * SWEEP, step=0.05)
    assert (len(await reserved(stores)), b.responses.network.calls["head"]) == (9, 0)


async def test_a_successor_settles_once_whether_or_not_the_killed_task_had() -> None:
    stores = shared()
    a = await Task.join(stores, "a", limits=LIMITS)
    await ask(a, longest=100)
    # It is killed between its usage record and the end.
    a.responses.network.failures["finish"] = UNREACHABLE
    await a.answer("Hello, Ann.")
    assert [record.epoch for record in await used(stores)] == [1]
    a.cut_off()
    b = await Task.join(stores, "b", limits=LIMITS)
    await b.clock.pass_time(SWEEP, step=0.05)
    b.source.calls[0].push("Once", " ", "more.")
    await b.answer("!")
    await b.clock.pass_time(1.0)
    (record,) = await used(stores)
    assert (record.epoch, record.output_tokens) == (2, 4)
    assert (await reserved(stores), await committed(stores)) == ({}, INPUT + 4)


async def test_a_reservation_that_grows_goes_on_growing_at_the_next_task() -> None:
    stores = shared(INPUT + 2 * STEP)
    a = await Task.join(stores, "a", limits=LIMITS)
    stream = await ask(a)
    a.cut_off()
    b = await Task.join(stores, "b", limits=LIMITS)
    await b.clock.pass_time(SWEEP, step=0.05)
    for _ in range(3 * STEP):
        b.source.calls[0].push("a")
        await settle()
    ended = await b.find(stream.response_id)
    assert (ended.finish_reason, ended.tokens) == ("budget", 2 * STEP)


async def test_a_reservation_that_its_earlier_owner_has_extended_goes_on_growing() -> None:
    """A node that was suspended still grows the reservation of an answer that it has lost."""
    stores = shared()
    a = await Task.join(stores, "a", limits=LIMITS)
    stream = await ask(a)
    a.cut_off()
    b = await Task.join(stores, "b", limits=LIMITS)
    await b.clock.pass_time(SWEEP, step=0.05)
    (before,) = await stores.usage.reservations("t")
    extended = replace(before, amounts={TOKENS: before.amounts[TOKENS] + STEP}, step=1)
    await stores.usage.reserve(ReservationRequest(extended, {TOKENS: 1_000}, before))
    for _ in range(STEP):
        b.source.calls[0].push("a")
    await settle()
    assert await reserved(stores) == {stream.response_id: INPUT + 3 * STEP}
    await b.answer("z")
    ended = await b.find(stream.response_id)
    assert (ended.finish_reason, ended.tokens) == ("stop", STEP + 1)


async def test_a_task_that_leaves_keeps_reserved_what_it_hands_over() -> None:
    stores = shared()
    a, b = await Task.join(stores, "a", limits=LIMITS), await Task.join(stores, "b", limits=LIMITS)
    stream = await ask(a, longest=100)
    await a.hand_over()
    await b.clock.pass_time(SWEEP, step=0.05)
    assert set(await reserved(stores)) == {stream.response_id}
    await b.answer("Hello.")
    await b.clock.pass_time(1.0)
    assert (await reserved(stores), len(await used(stores))) == ({}, 1)


async def test_an_answer_that_lost_all_of_its_owners_is_settled_too() -> None:
    stores = shared()
    limits = LIMITS.model_copy(update={"owners_per_response": 1})
    a = await Task.join(stores, "a", limits=limits)
    await ask(a, longest=100, user="ann")
    a.source.calls[0].push("Hello, ", "Ann")
    await a.clock.pass_time(1.0)
    a.cut_off()
    b = await Task.join(stores, "b", limits=limits)
    await b.clock.pass_time(SWEEP, step=0.05)
    (record,) = await used(stores)
    assert (record.error, record.user, record.output_tokens) == ("attempts_exhausted", "ann", 4)
    assert (await reserved(stores), await committed(stores)) == ({}, 4)
