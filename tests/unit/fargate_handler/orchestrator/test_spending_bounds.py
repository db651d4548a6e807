"""What is reserved is what can be spent, whatever the model's server makes of the request."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.filters.content_filters import ContentFilters
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.token_sources.port import ModelFinish
from evenflow.stream_core.base.agents import MessageParams, MessageTerms
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.base.model_prices import ModelPrices, TokenPrice
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.filtering.port import Filtering
from evenflow.stream_core.log.entries import LOGPROBS, Content, Part, PartKind
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.tenants.charges import Caller
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant import QuotaLimits
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Task
from tests.unit.fargate_handler.orchestrator.test_budget_reservations import (
    INPUT,
    LIMITS,
    STEP,
    ask,
    committed,
    reserved,
    shared,
    used,
)
from tests.unit.fargate_handler.orchestrator.test_client_tools import TOOL, called
from tests.unit.fargate_handler.orchestrator.test_generation import BROKEN, Bench
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")

LONGEST = 8
DOLLARS = "nanodollars/1970-01/tenant"


async def give(task: Task, *pieces: Content) -> None:
    """The model gives these pieces, as long as they are taken."""
    call = task.source.calls[-1]
    for piece in pieces:
        if call.end.done():
            break
        call.push(piece)
    await settle()


async def finish(task: Task, usage: Usage | None = None, cache_written: int = 0) -> None:
    """The model ends by itself."""
    task.source.calls[-1].end.set_result(ModelFinish("stop", usage, cache_written))
    await settle()
    await task.clock.pass_time(1.0)


async def test_an_answer_is_cut_at_what_is_reserved_though_the_model_goes_on() -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    stream = await ask(task, longest=LONGEST)
    assert await committed(stores) == INPUT + LONGEST
    await give(task, *["x"] * 100)
    assert (stream.state, stream.finish_reason) == (ResponseState.COMPLETED, "length")
    await task.clock.pass_time(1.0)
    assert await committed(stores) <= INPUT + LONGEST + 1
    (record,) = await used(stores)
    assert record.output_tokens == stream.tokens == LONGEST + 1


@pytest.mark.parametrize(
    "beside",
    [
        Part(PartKind.DATA, '{"content":[]}', name=LOGPROBS),
        Part(PartKind.DATA, '{"url":"https://example.org"}', name="source"),
    ],
)
async def test_an_answer_that_is_as_long_as_it_may_be_ends_as_its_model_says(
    beside: Part,
) -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    stream = await ask(task, longest=LONGEST)
    pieces: list[Content] = [beside, "x"]
    await give(task, *pieces * LONGEST, beside)
    await finish(task, Usage(5, LONGEST))
    assert (stream.finish_reason, stream.usage) == ("stop", Usage(5, LONGEST))
    (record,) = await used(stores)
    assert (record.tokens_counted_by, record.input_tokens) == ("model", 5)


async def test_a_long_piece_is_of_several_tokens() -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    stream = await ask(task, longest=LONGEST)
    await give(task, "many words " * 50, "and more", "and more")
    assert (stream.finish_reason, stream.log.text) == ("length", "many words " * 50)


async def test_a_tenant_in_shadow_is_not_cut_and_pays_for_what_came() -> None:
    stores = shared(shadow=True)
    task = await Task.join(stores, limits=LIMITS)
    stream = await ask(task, longest=LONGEST)
    await give(task, *["x"] * 100)
    await finish(task, Usage(5, 10**9))
    assert (stream.finish_reason, stream.tokens) == ("stop", 100)
    assert [record.output_tokens for record in await used(stores)] == [100]


async def test_the_node_s_longest_answer_holds_for_who_has_no_budget() -> None:
    task = await Task.join(limits=LIMITS)
    task.orchestrator._dispatcher._longest = LONGEST
    stream = await ask(task, longest=10 * LONGEST)
    await give(task, *["x"] * 100)
    assert (stream.finish_reason, stream.tokens) == ("length", LONGEST + 1)


async def test_an_attempt_that_begins_again_has_the_whole_length_and_is_billed_alone() -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    stream = await ask(task, longest=LONGEST)
    await give(task, *["x"] * (LONGEST - 1))
    task.source.calls[0].fail(UpstreamFailed("it broke", code="upstream_failed"))
    await settle()
    await give(task, *["y"] * LONGEST)
    await finish(task)
    assert (stream.finish_reason, stream.tokens) == ("stop", 2 * LONGEST - 1)
    (record,) = await used(stores)
    assert (record.output_tokens, await committed(stores)) == (LONGEST, INPUT + LONGEST)


async def test_an_attempt_that_goes_on_has_what_is_left() -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS, source=ControlledSource(continues=True))
    stream = await ask(task, longest=LONGEST)
    await give(task, *["x"] * (LONGEST - 1))
    task.source.calls[0].fail(UpstreamFailed("it broke", code="upstream_failed"))
    await settle()
    await give(task, *["y"] * LONGEST)
    assert (stream.finish_reason, stream.tokens) == ("length", LONGEST + 1)


@pytest.mark.parametrize("mode", [Filtering.HOLD, Filtering.RETRACT])
async def test_what_filters_keep_back_or_join_counts_piece_by_piece(mode: Filtering) -> None:
    filters = ContentFilters(mode, Tenants(), Metrics(), lambda: 0.0)
    bench = Bench(filters=filters)
    call = await bench.start()
    bench.stream.allowance.limit_call(LONGEST)
    # Each might be the beginning of a key, so none is cleared.
    for piece in ("AKIA", *"123456789012345678901234567890"):
        if not call.end.done():
            call.push(piece)
    await settle()
    assert bench.stream.finish_reason == "length"
    assert bench.stream.allowance.counted == len(call.pushed) == LONGEST + 1


async def test_a_filtered_attempt_that_begins_again_has_the_whole_length() -> None:
    bench = Bench(filters=ContentFilters(Filtering.HOLD, Tenants(), Metrics(), lambda: 0.0))
    call = await bench.start()
    bench.stream.allowance.limit_call(LONGEST)
    call.push(*["x"] * (LONGEST - 1))
    call.fail(BROKEN)
    await settle()
    again = bench.source.calls[1]
    again.push(*["y"] * LONGEST)
    again.finish()
    await settle()
    assert (bench.stream.finish_reason, bench.stream.allowance.counted) == ("stop", LONGEST)


# -- tools of the client ---------------------------------------------------------------------------


async def with_tool(task: Task, longest: int | None = None) -> ResponseStream:
    """Send the message `hi` with a tool. The answer is read here."""
    terms = MessageTerms(params=MessageParams(max_tokens=longest), tools=[TOOL])
    event = IncomingMessage(Channel("t", "demo", "s"), "m1", None, "hi", terms=terms)
    stream = (await task.orchestrator.submit(event)).stream
    task.read(stream)
    await settle()
    return stream


async def call_tool(task: Task, stream: ResponseStream) -> None:
    """The model calls the tool, and the client gives a result."""
    await give(task, *called(0, "c1"))
    task.source.calls[-1].end.set_result(ModelFinish("tool_calls", Usage(20, 2)))
    await settle()
    await task.orchestrator.take_result(stream, "c1", "7" * 60)
    await settle()


async def test_each_step_of_an_answer_is_reserved_before_the_model_is_called_again() -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    stream = await with_tool(task, longest=LONGEST)
    (first,) = (await reserved(stores)).values()
    await call_tool(task, stream)
    (both,) = (await reserved(stores)).values()
    # The question again, the call, and its result.
    assert both - first > first + 20
    await give(task, *["x"] * 100)
    assert stream.finish_reason == "length"
    await task.clock.pass_time(1.0)
    assert await committed(stores) <= both


async def test_an_answer_ends_with_its_budget_where_there_is_no_room_for_a_step() -> None:
    stores = shared(90)
    task = await Task.join(stores, limits=LIMITS)
    stream = await with_tool(task, longest=LONGEST)
    await call_tool(task, stream)
    assert (stream.state, stream.finish_reason) == (ResponseState.COMPLETED, "budget")
    assert len(task.source.calls) == 1
    await task.clock.pass_time(1.0)
    assert (await reserved(stores), await committed(stores)) == ({}, 22)


async def test_a_growing_answer_grows_on_in_its_next_step() -> None:
    stores = shared(10_000)
    task = await Task.join(stores, limits=LIMITS)
    stream = await with_tool(task)
    await call_tool(task, stream)
    for _ in range(4 * STEP):
        await give(task, "x")
    (amount,) = (await reserved(stores)).values()
    assert amount >= 4 * STEP
    assert not stream.paused
    await finish(task)
    assert stream.finish_reason == "stop"


# -- what the model's server reports ---------------------------------------------------------------

LIE = Usage(10**9, 10**9, cached_tokens=10**9, reasoning_tokens=10**9)
MOST_INPUT = 3 * INPUT + 256
"""Each byte a token, and a chat template."""


@pytest.mark.parametrize(
    ("longest", "pieces", "output"),
    [
        pytest.param(LONGEST, 2, LONGEST, id="what was reserved"),
        pytest.param(None, 2, STEP + 1, id="a growing reservation and one piece"),
        pytest.param(None, STEP, 2 * STEP + 1, id="a reservation that has grown"),
    ],
)
async def test_a_server_that_reports_too_much_is_not_believed(
    longest: int | None, pieces: int, output: int
) -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    await ask(task, longest=longest)
    await give(task, *["x"] * pieces)
    await finish(task, LIE)
    (record,) = await used(stores)
    assert (record.input_tokens, record.output_tokens) == (MOST_INPUT, output)
    assert (record.cached_tokens, record.reasoning_tokens) == (MOST_INPUT, output)
    assert await committed(stores) == MOST_INPUT + output


async def test_tokens_written_to_the_cache_are_part_of_the_charged_ones() -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    await ask(task, longest=LONGEST)
    await finish(task, Usage(10**9, 1), cache_written=10**9)
    (record,) = await used(stores)
    assert (record.input_tokens, record.cache_write_tokens) == (MOST_INPUT, MOST_INPUT)


async def test_a_lie_takes_neither_the_tenant_s_rate_nor_its_turns() -> None:
    stores = shared(limits=QuotaLimits(tokens_per_day=1_000, tokens_per_minute=1_000))
    task = await Task.join(stores, limits=LIMITS)
    await ask(task, longest=LONGEST)
    await finish(task, LIE)
    left = task.quotas.states(Caller("t"), task.clock.now)[0].remaining
    assert left >= 1_000 - MOST_INPUT - LONGEST
    # A token of the answer counts twice.
    charged = task.metrics.labelled(catalogue.SERVICE_CHARGED).by_labels
    assert charged == {("t",): MOST_INPUT + 2 * LONGEST}


async def test_reasoning_within_the_length_and_a_longer_prompt_are_charged_as_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    await ask(task, longest=LONGEST)
    await give(task, "x")
    await finish(task, Usage(INPUT + 70, LONGEST, reasoning_tokens=LONGEST - 1))
    (record,) = await used(stores)
    assert (record.input_tokens, record.output_tokens) == (INPUT + 70, LONGEST)
    assert record.reasoning_tokens == LONGEST - 1
    assert not caplog.records


async def test_each_call_of_an_answer_may_use_the_length_that_was_reserved_for_it() -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    stream = await with_tool(task, longest=LONGEST)
    await call_tool(task, stream)
    await give(task, "x")
    await finish(task, Usage(30, 10**9))
    (record,) = await used(stores)
    assert (record.input_tokens, record.output_tokens) == (50, 2 * LONGEST)


async def test_a_model_whose_server_reports_too_much_is_named_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stores = shared()
    task = await Task.join(stores, limits=LIMITS)
    for session in ("s1", "s2"):
        stream = await ask(task, session, longest=LONGEST)
        stream.figures.model = "liar"
        await finish(task, LIE)
    (line,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert "'liar'" in line.message
    assert "1,000,000,000 of input and 1,000,000,000 of output" in line.message
    assert f"charged {MOST_INPUT} and {LONGEST}" in line.message


# -- dollars ---------------------------------------------------------------------------------------


async def test_what_is_written_to_the_prompt_s_cache_was_reserved_at_its_price() -> None:
    stores = shared(None, limits=QuotaLimits(dollars_per_month=1))
    task = await Task.join(stores, limits=LIMITS)
    task.cluster.usage.prices = ModelPrices({"": TokenPrice(3, 15, 0.30, 3.75)})
    await ask(task, longest=LONGEST)
    assert await committed(stores, DOLLARS) == INPUT * 3_750 + LONGEST * 15_000
    await give(task, "x")
    await finish(task, Usage(INPUT, 1), cache_written=INPUT)
    assert await committed(stores, DOLLARS) == INPUT * 3_750 + 15_000
    (record,) = await used(stores)
    assert record.cache_write_tokens == INPUT
