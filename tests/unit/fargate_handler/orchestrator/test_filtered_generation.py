"""Attempts behind content filters: what a failure, a cancel and another owner leave."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow.fargate_handler.filters.content_filters import ContentFilters
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.errors import UpstreamExplained
from evenflow.stream_core.filtering.port import FilterAction, Filtering
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.tenants.registry import Tenants
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.fargate_handler.orchestrator.test_generation import BROKEN, Bench
from tests.unit.settle import settle

SECRET = "AKIA1234567890123456"

pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")


def filtered(mode: Filtering = Filtering.HOLD, **options: Any) -> ContentFilters:
    """The node's filters."""
    return ContentFilters(mode, Tenants(), Metrics(), lambda: 0.0, **options)


async def test_an_attempt_that_goes_on_is_told_only_what_was_cleared() -> None:
    bench = Bench(filters=filtered(), source=ControlledSource(continues=True))
    call = await bench.start()
    call.push("The key is ", SECRET[:12])
    call.fail(BROKEN)
    await settle()
    again = bench.source.calls[1]
    assert again.request.prefix == "The key is "
    again.push(SECRET[:5], SECRET[5:], ".")
    again.finish()
    await settle()
    assert bench.reader.held.text == "The key is [redacted]."
    assert all(SECRET[:8] not in str(entry) for entry in bench.stream.log.entries)


async def test_an_attempt_that_begins_again_is_filtered_from_its_beginning() -> None:
    bench = Bench(filters=filtered())
    call = await bench.start()
    call.push("The key is AKIA12")
    call.fail(BROKEN)
    await settle()
    again = bench.source.calls[1]
    again.push("34567890123456 it is, ", SECRET)
    again.finish()
    await settle()
    assert bench.reader.held.text == "34567890123456 it is, [redacted]"


async def test_the_model_has_begun_though_its_first_token_is_held() -> None:
    bench, begun = Bench(filters=filtered()), list[str]()
    bench.stream.delivery.set_on_first_delta(lambda: begun.append(bench.stream.log.text))
    call = await bench.start()
    call.push(SECRET[:9], SECRET[9:12])
    assert begun == [""], "as late as the filters, it would look as if the model queued calls"
    call.push(" and more")
    assert bench.stream.log.text.startswith(f"{SECRET[:12]} and mor")


async def test_another_owner_holds_what_the_first_one_held() -> None:
    source = ControlledSource(continues=True)
    bench = Bench(filters=filtered(), source=source, entries=["The key is "])
    call = await bench.start()
    assert call.request.prefix == "The key is "
    call.push(SECRET, "!")
    call.finish()
    await settle()
    assert bench.stream.log.text == "The key is [redacted]!"


@pytest.mark.parametrize("mode", [Filtering.HOLD, Filtering.RETRACT])
async def test_another_owner_judges_what_comes_by_what_stands(mode: Filtering) -> None:
    source = ControlledSource(continues=True)
    bench = Bench(filters=filtered(mode), source=source, entries=["The key is ", SECRET[:9]])
    call = await bench.start()
    call.push(SECRET[9:], "!")
    call.finish()
    await settle()
    kept = SECRET[:9] if mode is Filtering.HOLD else ""
    assert bench.stream.log.text == f"The key is {kept}[redacted]!"


@pytest.mark.parametrize("held", [SECRET, SECRET[:9]])
async def test_at_a_cancel_what_is_held_is_dropped(held: str) -> None:
    bench = Bench(filters=filtered())
    call = await bench.start()
    call.push("The key is ", held)
    bench.generation.cancel()
    await settle()
    assert bench.ended == [ResponseState.CANCELLED]
    assert bench.stream.log.text == "The key is "


@pytest.mark.parametrize("mode", [Filtering.HOLD, Filtering.RETRACT])
async def test_a_filter_may_end_the_answer_and_the_model_is_stopped(mode: Filtering) -> None:
    bench = Bench(filters=filtered(mode, action=FilterAction.STOP))
    call = await bench.start()
    call.push("It is ", SECRET, " and")
    await settle()
    assert bench.ended == [ResponseState.COMPLETED]
    assert (bench.stream.finish_reason, bench.stream.log.text) == ("content_filter", "It is ")
    assert call.closed == 1


@pytest.mark.parametrize("mode", [Filtering.HOLD, Filtering.RETRACT])
async def test_a_filter_that_fails_ends_the_answer_and_nothing_is_tried_again(
    mode: Filtering,
) -> None:
    class Broken:
        def __init__(self, before: str) -> None:
            """Nothing to begin with."""

        def push(self, text: str) -> str:
            raise KeyError(text)

        def finish(self) -> str:
            return ""

    bench = Bench(filters=filtered(mode, python=Broken))
    call = await bench.start()
    call.push("word")
    await settle()
    assert bench.ended == [ResponseState.ERROR]
    assert bench.stream.error is not None
    assert bench.stream.error["code"] == "filter_failed"
    assert (len(bench.source.calls), call.closed) == (1, 1)


@pytest.mark.parametrize("mode", [Filtering.HOLD, Filtering.RETRACT])
async def test_a_backend_s_words_for_readers_are_left_out_where_no_filter_reads_them(
    mode: Filtering,
) -> None:
    bench = Bench(filters=filtered(mode))
    call = await bench.start()
    call.push("The key ")
    call.fail(UpstreamExplained(f"The key {SECRET} is wrong.", code="upstream_explained"))
    await settle()
    assert bench.stream.error is not None
    assert bench.stream.error["code"] == "upstream_failed"
    assert SECRET not in str(bench.stream.error)
    assert len(bench.source.calls) == 1
