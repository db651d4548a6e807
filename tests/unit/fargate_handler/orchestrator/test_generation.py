from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fargate_handler.orchestrator.generation import Generation
from fargate_handler.orchestrator.whole_request import WholeRequest
from fargate_handler.token_sources.port import Caller, ModelFinish, ModelRequest
from stream_core.channel import Channel
from stream_core.conversation import Turn
from stream_core.errors import EvenflowError, ModelRefused, Overloaded, UpstreamFailed, UpstreamRejected
from stream_core.limits import Limits
from stream_core.messages import Usage
from stream_core.response_log import LogEntry
from stream_core.response_state import ResponseState
from stream_core.response_stream import ResponseStream
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource, SourceCall
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle

BROKEN = UpstreamFailed("it broke", code="upstream_failed")
TURNS = (Turn("user", "hi"),)
CALLER = Caller(session="ses_1", tenant="public", message_id="m1")


pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")


@dataclass
class Bench:
    """A generation with everything around it in the test's hand."""

    limits: Limits = field(default_factory=Limits)
    fallback_text: str = ""
    grace_seconds: float = 30.0
    source: ControlledSource = field(default_factory=ControlledSource)
    read: bool = True
    in_force: bool = True
    clock: HandTurnedClock = field(default_factory=HandTurnedClock)
    ended: list[ResponseState] = field(default_factory=list)
    retries: int = 0

    entries: Sequence[LogEntry] | None = None
    """What an earlier owner left; None for a response of our own."""

    def __post_init__(self) -> None:
        self.stream = ResponseStream(
            response_id="rsp_1",
            message_id="m1",
            channel=Channel("public", "demo", "ses_1"),
            clock=self.clock.delivery,
            limits=self.limits,
            monotonic=self.clock.monotonic,
        )
        if self.entries is not None:
            self.stream.take_up(self.entries, 2, None, continues=self.source.continues)
        self.generation = Generation(
            stream=self.stream,
            asked=WholeRequest(TURNS),
            source=self.source,
            clock=self.clock.delivery,
            limits=self.limits,
            grace_seconds=self.grace_seconds,
            fallback_text=self.fallback_text,
            monotonic=self.clock.monotonic,
            in_force=lambda: self.in_force,
            on_attempt=self._on_attempt,
            on_end=self._on_end,
        )
        self.reader = RecordingReader(self.stream, self.clock, AssembledText())
        if self.read:
            self.stream.attach(self.reader)

    async def start(self) -> SourceCall:
        """Begin, and return the model's first call."""
        self.generation.start()
        await settle()
        return self.source.calls[0]

    async def pass_time(self, seconds: float) -> None:
        """Time passes, in steps of a second, and the tasks go on."""
        while seconds > 0:
            self.clock.turn(min(seconds, 1.0))
            seconds -= 1.0
            await settle()

    def _on_attempt(self) -> None:
        self.retries += 1

    def _on_end(self, generation: Generation) -> None:
        assert generation is self.generation
        assert self.source.open_calls == 0, "the model is closed by then"
        assert self.stream.log.closed or generation.abandoned, "the response has ended by then, or goes on elsewhere"
        self.ended.append(self.stream.state)


def error_code(stream: ResponseStream) -> str | None:
    return stream.error["code"] if stream.error else None


# -- a model that answers ------------------------------------------------------------------------------------------


async def test_a_model_s_tokens_are_the_response_and_its_end_is_the_end() -> None:
    bench = Bench()
    call = await bench.start()
    assert call.request == ModelRequest("demo", TURNS, 1, key="rsp_1:1:1", caller=CALLER)
    call.push("Even", "flow")
    call.end.set_result(ModelFinish("length", Usage(prompt_tokens=1, completion_tokens=2)))
    await settle()
    assert bench.ended == [ResponseState.COMPLETED]
    assert bench.reader.held.text == "Evenflow"
    assert bench.stream.finish_reason == "length"
    assert bench.stream.usage == Usage(prompt_tokens=1, completion_tokens=2)
    assert (call.closed, bench.retries) == (1, 0)


async def test_a_response_that_is_full_ends_with_length_and_the_model_is_stopped() -> None:
    bench = Bench(limits=Limits(response_bytes=1024, batch_tokens=1))
    call = await bench.start()
    call.push(*["x" * 100] * 50)
    await settle()
    assert bench.ended == [ResponseState.COMPLETED]
    assert bench.stream.finish_reason == "length"
    assert bench.stream.log.text == "".join(call.pushed)
    assert (call.closed, bench.retries) == (1, 0)


# -- retry and fallback --------------------------------------------------------------------------------------------


async def test_a_failed_attempt_is_repeated_and_its_text_replaced() -> None:
    bench = Bench()
    call = await bench.start()
    call.push("wrong")
    call.fail(BROKEN)
    await settle()
    assert bench.retries == 1
    second = bench.source.calls[1]
    assert second.request.attempt == 2
    second.push("right")
    second.finish()
    await settle()
    assert bench.ended == [ResponseState.COMPLETED]
    assert bench.reader.held.text == bench.stream.log.text == "right"
    assert not bench.stream.degraded


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_after_the_last_attempt_the_error_is_the_end_and_what_was_delivered_stays(retries: int) -> None:
    bench = Bench(limits=Limits(model_retries=retries))
    await bench.start()
    for number in range(retries + 1):
        bench.source.calls[number].push(f"attempt {number + 1}")
        bench.source.calls[number].fail(BROKEN)
        await settle()
    assert bench.ended == [ResponseState.ERROR]
    assert error_code(bench.stream) == "upstream_failed"
    assert bench.reader.held.text == f"attempt {retries + 1}"
    assert (len(bench.source.calls), bench.retries) == (retries + 1, retries)


async def test_after_the_last_attempt_the_fallback_answer_stands_in_marked_degraded() -> None:
    bench = Bench(fallback_text="Please ask again.")
    await bench.start()
    for number in range(2):
        bench.source.calls[number].push("half an ")
        bench.source.calls[number].fail(BROKEN)
        await settle()
    assert bench.ended == [ResponseState.COMPLETED]
    assert bench.stream.degraded
    assert bench.stream.finish_reason == "stop"
    assert bench.reader.held.text == "Please ask again."


async def test_the_fallback_answer_is_no_token_of_a_model() -> None:
    bench = Bench(limits=Limits(model_retries=0), fallback_text="Please ask again.")
    call = await bench.start()
    call.fail(BROKEN)
    await settle()
    assert bench.stream.tokens == 0


async def test_a_full_log_is_no_hindrance_to_the_end() -> None:
    bench = Bench(limits=Limits(model_retries=0, response_bytes=1024), fallback_text="Please ask again.")
    call = await bench.start()
    call.push("x" * 1024)
    call.fail(BROKEN)
    await settle()
    assert len(bench.ended) == 1
    assert bench.stream.log.closed


@pytest.mark.parametrize("fallback_text", ["", "Please ask again."])
async def test_a_refusal_is_told_as_it_is_and_not_tried_again(fallback_text: str) -> None:
    bench = Bench(fallback_text=fallback_text)
    call = await bench.start()
    call.fail(ModelRefused("no", code="model_refused"))
    await settle()
    assert bench.ended == [ResponseState.ERROR]
    assert error_code(bench.stream) == "model_refused"
    assert len(bench.source.calls) == 1


async def test_a_model_that_rejects_us_is_not_tried_again_but_the_fallback_stands_in() -> None:
    bench = Bench(fallback_text="Please ask again.")
    call = await bench.start()
    call.fail(UpstreamRejected("wrong key", code="upstream_rejected"))
    await settle()
    assert bench.ended == [ResponseState.COMPLETED]
    assert (bench.stream.degraded, bench.retries) == (True, 0)
    assert bench.reader.held.text == "Please ask again."


async def test_an_unknown_failure_is_tried_again_and_its_details_stay_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    await bench.start()
    for number in range(2):
        bench.source.calls[number].fail(RuntimeError("password=hunter2"))
        await settle()
    assert bench.ended == [ResponseState.ERROR]
    assert error_code(bench.stream) == "internal_error"
    assert "hunter2" not in str(bench.stream.error)
    assert "hunter2" in caplog.text


# -- deadlines -----------------------------------------------------------------------------------------------------


async def test_a_model_without_a_first_token_is_given_up_at_the_deadline_and_tried_again() -> None:
    bench = Bench()
    call = await bench.start()
    await bench.pass_time(9.5)
    assert call.closed == 0
    await bench.pass_time(0.6)
    assert (call.closed, len(bench.source.calls), bench.retries) == (1, 2, 1)
    await bench.pass_time(10.1)
    assert bench.ended == [ResponseState.ERROR]
    assert error_code(bench.stream) == "first_token_timeout"


async def test_after_its_first_token_a_model_has_until_the_last_deadline() -> None:
    bench = Bench(limits=Limits(model_retries=0))
    call = await bench.start()
    call.push("a")
    await bench.pass_time(59.0)
    assert call.closed == 0
    await bench.pass_time(1.1)
    assert call.closed == 1
    assert bench.ended == [ResponseState.ERROR]
    assert error_code(bench.stream) == "model_timeout"
    assert bench.reader.held.text == "a"


async def test_the_second_attempt_has_deadlines_of_its_own() -> None:
    bench = Bench()
    first = await bench.start()
    first.push("a")
    await bench.pass_time(50.0)
    first.fail(BROKEN)
    await settle()
    await bench.pass_time(9.0)
    assert bench.source.calls[1].closed == 0
    bench.source.calls[1].push("b")
    await bench.pass_time(50.0)
    assert bench.source.calls[1].closed == 0
    await bench.pass_time(1.1)
    assert bench.source.calls[1].closed == 1
    assert error_code(bench.stream) == "model_timeout"


async def test_tokens_of_the_first_attempt_are_no_first_token_of_the_second() -> None:
    bench = Bench()
    first = await bench.start()
    first.push("a")
    first.fail(BROKEN)
    await settle()
    await bench.pass_time(10.1)
    assert bench.source.calls[1].closed == 1
    assert error_code(bench.stream) == "first_token_timeout"


async def test_a_held_model_owes_nothing() -> None:
    bench = Bench(limits=Limits(model_retries=0, grace_seconds=3600))
    call = await bench.start()
    call.push("a")
    bench.reader.holds_model = True
    bench.reader.pause()
    assert call.sink.held
    await bench.pass_time(200.0)
    assert call.closed == 0
    bench.reader.resume()
    assert not call.sink.held
    await bench.pass_time(50.0)
    assert call.closed == 0
    await bench.pass_time(12.0)
    assert call.closed == 1


async def test_a_model_that_is_given_up_and_takes_its_time_to_close_ends_the_same() -> None:
    bench = Bench(limits=Limits(model_retries=0), source=ControlledSource(close_steps=5))
    call = await bench.start()
    await bench.pass_time(11.0)
    assert call.closed == 1
    assert bench.ended == [ResponseState.ERROR]


# -- nobody reads ----------------------------------------------------------------------------------------------------


async def test_without_a_reader_the_model_goes_on_for_the_grace_period_and_is_then_cancelled() -> None:
    bench = Bench()
    call = await bench.start()
    call.push("a")
    bench.reader.leave()
    await bench.pass_time(29.0)
    assert call.closed == 0
    await bench.pass_time(1.1)
    assert call.closed == 1
    assert bench.ended == [ResponseState.CANCELLED]


async def test_a_reader_that_comes_back_within_the_grace_period_keeps_the_model() -> None:
    bench = Bench()
    call = await bench.start()
    call.push("a")
    for _ in range(2):
        bench.reader.leave()
        await bench.pass_time(25.0)
        bench.reader = RecordingReader(bench.stream, bench.clock, bench.reader.held)
        bench.stream.attach(bench.reader)
    assert call.closed == 0
    call.push("b")
    call.finish()
    await settle()
    assert bench.reader.held.text == "ab"
    assert bench.ended == [ResponseState.COMPLETED]


async def test_a_response_that_waits_and_that_nobody_reads_is_cancelled_and_never_begun() -> None:
    bench = Bench(read=False)
    await bench.pass_time(31.0)
    assert bench.ended == [ResponseState.CANCELLED]
    assert bench.source.calls == []


async def test_without_grace_the_model_is_cancelled_as_soon_as_the_reader_has_left() -> None:
    bench = Bench(grace_seconds=0.0)
    call = await bench.start()
    bench.reader.leave()
    await bench.pass_time(1.1)
    assert call.closed == 1
    assert bench.ended == [ResponseState.CANCELLED]


# -- cancel and interrupt at any moment ------------------------------------------------------------------------------


STEPS = ("start", "begin", "push", "fail", "retry", "push again", "finish", "close")


async def _play(bench: Bench, step: str) -> None:
    calls = bench.source.calls
    match step:
        case "start" if not bench.stream.state.terminal:
            bench.generation.start()
        case "begin" | "retry" | "close":
            await settle()
        case "push" | "push again" if calls:
            calls[-1].push("a", "b")
        case "fail" if calls:
            calls[-1].fail(BROKEN)
        case "finish" if calls:
            calls[-1].finish()


@given(
    moment=st.integers(0, len(STEPS)),
    loop_steps=st.integers(0, 6),
    how=st.sampled_from(["cancel", "interrupt", "grace"]),
    again=st.sampled_from(["cancel", "interrupt", "nothing"]),
    source=st.builds(
        ControlledSource,
        st.integers(0, 3),
        st.sampled_from([None, BROKEN, RuntimeError("while closing"), ModelFinish("stop", None)]),
    ),
    fallback_text=st.sampled_from(["", "Please ask again."]),
)
@settings(max_examples=500)
async def test_whenever_it_is_stopped_the_model_is_closed_once_and_the_end_told_once(
    moment: int, loop_steps: int, how: str, again: str, source: ControlledSource, fallback_text: str
) -> None:
    """Whatever a source makes of its cancellation: nothing, an error of its own, an end as if nothing had happened."""
    bench = Bench(fallback_text=fallback_text, source=source, read=how != "grace")
    stop: dict[str, EvenflowError | None] = {"cancel": None, "interrupt": Overloaded("leaving", code="draining")}
    for step in STEPS[:moment]:
        await _play(bench, step)
    for _ in range(loop_steps):
        await asyncio.sleep(0)
    before, retries = bench.stream.state, bench.retries
    for action in (how, again):
        if action == "grace":
            bench.clock.turn(31.0)
        elif action in stop:
            error = stop[action]
            if error is None:
                bench.generation.cancel()
            else:
                bench.generation.interrupt(error)
    after = bench.stream.state
    assert after.terminal
    if before.terminal:
        assert after is before
    else:
        assert after is (ResponseState.ERROR if how == "interrupt" else ResponseState.CANCELLED)
    await settle()
    bench.clock.turn(5.0)
    await settle()
    assert bench.stream.state is after
    assert bench.ended == [after]
    assert [call.closed for call in bench.source.calls] == [1] * len(bench.source.calls)
    assert bench.retries == retries, "no attempt begins behind the end"
    task = bench.generation._task
    assert task is None or (task.done() and task.exception() is None), "nothing is left to be reported"


async def test_a_cancelled_response_keeps_what_was_delivered() -> None:
    bench = Bench()
    call = await bench.start()
    call.push("a", "b")
    bench.generation.cancel()
    assert bench.reader.held.text == "ab"
    await settle()
    assert bench.stream.finish_reason == "cancelled"
    assert bench.ended == [ResponseState.CANCELLED]


async def test_an_interrupted_response_ends_with_the_error() -> None:
    bench = Bench()
    call = await bench.start()
    call.push("a")
    bench.generation.interrupt(Overloaded("leaving", code="draining"))
    await settle()
    assert error_code(bench.stream) == "draining"
    assert bench.ended == [ResponseState.ERROR]
    assert call.closed == 1


async def test_when_the_process_leaves_and_cancels_the_task_the_response_is_cancelled() -> None:
    bench = Bench()
    call = await bench.start()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await settle()
    assert bench.ended == [ResponseState.CANCELLED]
    assert call.closed == 1
