"""A generation that takes a response up, leaves it to another task, or may not say its end yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest
from evenflow.stream_core.base.errors import ModelRefused, Overloaded
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.log.response_log import ResponseState
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.fargate_handler.orchestrator.test_generation import (
    BROKEN,
    CALLER,
    TURNS,
    Bench,
    error_code,
)
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")

LEFT = ["Even", "flow "]


# -- taken up --------------------------------------------------------------------------------------


async def test_a_source_that_continues_is_given_the_beginning_of_the_answer() -> None:
    bench = Bench(source=ControlledSource(continues=True), entries=LEFT)
    call = await bench.start()
    assert call.request == ModelRequest("demo", TURNS, 2, "Evenflow ", "rsp_1:2:2", caller=CALLER)
    call.push("delivers.")
    call.finish()
    await settle()
    assert bench.stream.log.text == bench.reader.held.text == "Evenflow delivers."
    assert bench.ended == [ResponseState.COMPLETED]


async def test_a_source_that_does_not_continue_begins_again() -> None:
    bench = Bench(entries=LEFT)
    call = await bench.start()
    assert call.request == ModelRequest("demo", TURNS, 2, "", "rsp_1:2:2", caller=CALLER)
    call.push("Once more.")
    call.finish()
    await settle()
    assert bench.reader.held.text == "Once more."


async def test_when_continuing_fails_behind_text_the_next_attempt_continues_that() -> None:
    bench = Bench(source=ControlledSource(continues=True), entries=LEFT)
    call = await bench.start()
    call.push("delivers")
    call.fail(BROKEN)
    await settle()
    again = bench.source.calls[1]
    assert (again.request.prefix, again.request.attempt, again.request.key) == (
        "Evenflow delivers",
        3,
        "rsp_1:2:3",
    )
    again.push(" tokens.")
    again.finish()
    await settle()
    assert bench.reader.held.text == "Evenflow delivers tokens."


async def test_when_continuing_gives_nothing_the_next_attempt_begins_again() -> None:
    bench = Bench(source=ControlledSource(continues=True), entries=LEFT)
    call = await bench.start()
    call.fail(BROKEN)
    await settle()
    again = bench.source.calls[1]
    assert (again.request.prefix, again.request.attempt, again.request.key) == ("", 3, "rsp_1:2:3")
    again.push("Once more.")
    again.finish()
    await settle()
    assert bench.reader.held.text == "Once more."


async def test_an_owner_has_its_own_retries() -> None:
    bench = Bench(entries=["a", Restart(-1, 2), "b"], limits=Limits(model_retries=1))
    await bench.start()
    for number in range(2):
        bench.source.calls[number].fail(BROKEN)
        await settle()
    assert [call.request.attempt for call in bench.source.calls] == [3, 4]
    assert bench.ended == [ResponseState.ERROR]


async def test_every_attempt_of_every_owner_has_a_key_of_its_own() -> None:
    """Else a model's server that knows keys would answer with the earlier attempt."""
    keys = set()
    for bench in (Bench(), Bench(entries=LEFT)):
        await bench.start()
        for number in range(2):
            bench.source.calls[number].fail(BROKEN)
            await settle()
        keys |= {call.request.key for call in bench.source.calls}
    assert len(keys) == 4


# -- handed over -----------------------------------------------------------------------------------


async def test_handed_over_in_the_queue_it_never_asks_the_model() -> None:
    bench = Bench()
    bench.generation.hand_over()
    assert bench.ended == [ResponseState.QUEUED]
    await bench.pass_time(60.0)
    assert bench.source.calls == []
    assert not bench.stream.log.closed


async def test_handed_over_before_its_task_has_begun_it_ends_without_asking_the_model() -> None:
    bench = Bench()
    bench.generation.start(bench.background)
    bench.generation.hand_over()
    await settle()
    assert bench.source.calls == []
    assert bench.ended == [ResponseState.STREAMING]


async def test_handed_over_in_the_middle_the_model_stops_and_the_response_stays_open() -> None:
    bench = Bench(source=ControlledSource(close_steps=3))
    call = await bench.start()
    call.push("a")
    bench.generation.hand_over()
    assert bench.generation.is_handed_over
    assert bench.ended == []
    await settle()
    assert call.closed == 1
    assert bench.ended == [ResponseState.STREAMING]
    assert bench.stream.log.entries == ["a"]
    assert bench.reader in bench.stream.readers


async def test_handed_over_in_the_pause_before_a_retry_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "evenflow.fargate_handler.orchestrator.retry_policy._RETRY_PAUSE_SECONDS", (1.0, 1.0)
    )
    bench = Bench()
    bench.clock.drive_timers()
    call = await bench.start()
    call.push("a")
    call.fail(BROKEN)
    await bench.clock.pass_time(0.5)
    bench.generation.hand_over()
    await bench.clock.pass_time(5.0)
    assert len(bench.source.calls) == 1
    assert bench.retries == 0
    assert bench.stream.log.entries == ["a"], "no restart is told, another task goes on"
    assert bench.ended == [ResponseState.STREAMING]


@given(
    moment=st.integers(0, 5),
    loop_steps=st.integers(0, 6),
    then=st.sampled_from(["cancel", "interrupt", "hand_over", "nothing"]),
    on_cancel=st.sampled_from(
        [None, BROKEN, RuntimeError("while closing"), ModelFinish("stop", None)]
    ),
    close_steps=st.integers(0, 3),
)
@settings(max_examples=2 * settings().max_examples)
async def test_whenever_it_is_handed_over_the_model_is_closed_once_and_no_end_is_told(
    moment: int,
    loop_steps: int,
    then: str,
    on_cancel: Exception | ModelFinish | None,
    close_steps: int,
) -> None:
    """Whatever a source makes of its cancellation, and whatever is asked of the generation
    afterwards.
    """
    bench = Bench(
        source=ControlledSource(close_steps, on_cancel), fallback_text="Please ask again."
    )
    calls = bench.source.calls
    steps: list[Callable[[], None]] = [
        lambda: bench.generation.start(bench.background),
        lambda: None,
        lambda: calls[-1].push("a", "b"),
        lambda: calls[-1].fail(BROKEN),
        lambda: calls[-1].push("c"),
    ]
    for step in steps[:moment]:
        step()
        await settle()
    for _ in range(loop_steps):
        await asyncio.sleep(0)
    entries, retries = list(bench.stream.log.entries), bench.retries
    bench.generation.hand_over()
    match then:
        case "cancel":
            bench.generation.cancel()
        case "interrupt":
            bench.generation.fail(Overloaded("leaving", code="draining"))
        case "hand_over":
            bench.generation.hand_over()
    await bench.pass_time(35.0)
    assert not bench.stream.log.closed
    assert bench.stream.log.entries[: len(entries)] == entries
    assert bench.retries == retries
    assert len(bench.ended) == 1
    assert [call.closed for call in calls] == [1] * len(calls)
    task = bench.generation._task
    assert task is None or (task.done() and task.exception() is None), (
        "nothing is left to be reported"
    )


async def test_what_has_ended_is_not_handed_over_any_more() -> None:
    bench = Bench()
    call = await bench.start()
    call.finish()
    await settle()
    bench.generation.hand_over()
    assert not bench.generation.is_handed_over
    assert bench.ended == [ResponseState.COMPLETED]


# -- not in force ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["finish", "fail", "fallback"])
async def test_the_end_is_not_told_while_another_task_may_tell_another_one(how: str) -> None:
    bench = Bench(
        limits=Limits(model_retries=0),
        fallback_text="Sorry." if how == "fallback" else "",
        in_force=False,
    )
    bench.clock.drive_timers()
    call = await bench.start()
    if how != "fallback":
        call.push("a")
    if how == "finish":
        call.finish()
    else:
        call.fail(BROKEN)
    await bench.clock.pass_time(5.0)
    assert not bench.stream.log.closed
    assert bench.reader.held.text == ("" if how == "fallback" else "a")
    assert bench.ended == []
    bench.in_force = True
    await bench.clock.pass_time(0.2)
    assert bench.ended == [ResponseState.ERROR if how == "fail" else ResponseState.COMPLETED]
    assert bench.reader.held.text == ("Sorry." if how == "fallback" else "a")


async def test_no_attempt_is_replaced_while_another_task_may_go_on_with_it() -> None:
    bench = Bench(in_force=False)
    bench.clock.drive_timers()
    call = await bench.start()
    call.push("a")
    call.fail(BROKEN)
    await bench.clock.pass_time(3.0)
    assert bench.stream.log.entries == ["a"]
    assert len(bench.source.calls) == 1
    bench.in_force = True
    await bench.clock.pass_time(1.0)
    bench.source.calls[1].push("b")
    await bench.clock.pass_time(1.0)
    assert bench.stream.log.entries == ["a", Restart(-1, 2), "b"]


async def test_handed_over_while_its_end_waits_it_tells_none() -> None:
    bench = Bench(in_force=False)
    bench.clock.drive_timers()
    call = await bench.start()
    call.push("a")
    call.finish()
    await bench.clock.pass_time(1.0)
    bench.generation.hand_over()
    bench.in_force = True
    await bench.clock.pass_time(1.0)
    assert bench.ended == [ResponseState.STREAMING]
    assert bench.stream.log.entries == ["a"]


async def test_while_its_end_waits_deadlines_change_nothing_and_its_user_can_still_cancel() -> None:
    bench = Bench(in_force=False, limits=Limits(model_retries=0))
    bench.clock.drive_timers()
    call = await bench.start()
    call.push("a")
    call.finish()
    await bench.clock.pass_time(70.0, step=0.1)
    assert bench.ended == []
    bench.generation.cancel()
    await settle()
    assert bench.ended == [ResponseState.CANCELLED]


async def test_a_refusal_of_the_model_waits_too() -> None:
    bench = Bench(in_force=False)
    bench.clock.drive_timers()
    call = await bench.start()
    call.fail(ModelRefused("no", code="model_refused"))
    await bench.clock.pass_time(1.0)
    assert bench.ended == []
    bench.in_force = True
    await bench.clock.pass_time(0.2)
    assert error_code(bench.stream) == "model_refused"
