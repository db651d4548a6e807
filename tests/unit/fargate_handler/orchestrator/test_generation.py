from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.fargate_handler.filters.content_filters import ContentFilters
from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.fargate_handler.orchestrator.incoming_message import TRANSLATED, WholeRequest
from evenflow.fargate_handler.orchestrator.upstream import Upstream
from evenflow.fargate_handler.runtime.background import Background
from evenflow.fargate_handler.token_sources.port import CallerInfo, ModelFinish, ModelRequest
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.channel import (
    CHAT,
    COMPLETION,
    KEYED_COMPLETION,
    UNKEYED_RESPONSE,
    Channel,
    MessageKind,
)
from evenflow.stream_core.base.errors import (
    EvenflowError,
    ModelRefused,
    Overloaded,
    UpstreamAnswered,
    UpstreamExplained,
    UpstreamFailed,
    UpstreamRejected,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Content, LogEntry, Part, PartKind, Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.session.conversation import Turn
from evenflow.stream_core.upstream.circuit_breaker import CircuitBreaker
from evenflow.stream_core.upstream.concurrency_limiter import ConcurrencyLimiter
from evenflow.stream_core.upstream.rejection_backoff import RejectedCall
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource, SourceCall
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle

BROKEN = UpstreamFailed("it broke", code="upstream_failed")
TURNS = (Turn("user", "hi"),)
_THOUGHT = Part(PartKind.REASONING, "Hm", name="reasoning")
CALLER = CallerInfo(session="ses_1", tenant="public", message_id="m1")


pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")


PATIENT = Limits(model_first_sign_seconds=600.0)


@dataclass
class Bench:
    """A generation with everything around it in the test's hand."""

    limits: Limits = field(default_factory=Limits)
    fallback_text: str = ""
    grace_seconds: float = 30.0
    source: ControlledSource = field(default_factory=ControlledSource)
    read: bool = True
    in_force: bool = True
    can_go_on: bool = True
    kind: MessageKind = CHAT
    may_call_again: bool = True
    filters: ContentFilters | None = None
    request: WholeRequest = field(default_factory=lambda: WholeRequest(TURNS))
    clock: HandTurnedClock = field(default_factory=HandTurnedClock)
    ended: list[ResponseState] = field(default_factory=list)
    retries: int = 0
    waiting: list[Generation] = field(default_factory=list)
    background: Background = field(default_factory=Background)

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
            self.stream.adopt_log(self.entries, 2, None)
        self.generation = Generation(
            stream=self.stream,
            kind=self.kind,
            line=Line("public"),
            request=self.request,
            upstream=Upstream(
                "model",
                self.source,
                CircuitBreaker(10, 10.0),
                ConcurrencyLimiter(0.02),
            ),
            clock=self.clock.delivery,
            limits=self.limits,
            grace_seconds=self.grace_seconds,
            fallback_text=self.fallback_text,
            continues=lambda _: self.source.continues and self.can_go_on,
            monotonic=self.clock.monotonic,
            in_force=lambda: self.in_force,
            requeue=self.waiting.append,
            wait_for_tools=lambda _: None,
            on_retry=self._on_retry,
            on_failure=lambda _: None,
            on_end=self._on_end,
            may_call_again=self.may_call_again,
            filters=self.filters,
        )
        self.reader = RecordingReader(self.stream, self.clock, AssembledText())
        if self.read:
            self.stream.attach(self.reader)

    async def start(self) -> SourceCall:
        """Begin, and return the model's first call."""
        self.generation.start(self.background)
        await settle()
        return self.source.calls[0]

    async def pass_time(self, seconds: float) -> None:
        """Time passes, in steps of a second, and the tasks go on."""
        while seconds > 0:
            self.clock.turn(min(seconds, 1.0))
            seconds -= 1.0
            await settle()

    def _on_retry(self) -> None:
        self.retries += 1

    def _on_end(self, generation: Generation) -> None:
        assert generation is self.generation
        assert self.source.open_calls == 0, "the model is closed by then"
        assert self.stream.log.closed or generation.is_handed_over, (
            "the response has ended by then, or goes on elsewhere"
        )
        self.ended.append(self.stream.state)


def error_code(stream: ResponseStream) -> str | None:
    return stream.error["code"] if stream.error else None


# -- a model that answers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "echo", "translated"),
    [(CHAT, {}, True), (COMPLETION, {}, False), (COMPLETION, TRANSLATED, True)],
)
async def test_chat_completions_alone_name_their_parameters_as_the_model_is_told_them(
    kind: MessageKind, echo: Mapping[str, Any], translated: bool
) -> None:
    bench = Bench(kind=kind, request=WholeRequest(TURNS, echo=echo))
    call = await bench.start()
    assert call.request.translated is translated
    call.finish()
    await settle()


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
    assert bench.stream.log.text == "".join(map(str, call.pushed))
    assert (call.closed, bench.retries) == (1, 0)


# -- refusals --------------------------------------------------------------------------------------


async def test_in_a_chat_a_refusal_is_what_the_model_says_and_why_it_ended() -> None:
    bench = Bench()
    call = await bench.start()
    call.push(_THOUGHT, Part(PartKind.REFUSAL, "I can"), Part(PartKind.REFUSAL, "not."))
    call.finish()
    await settle()
    assert bench.stream.log.read(0).current == (_THOUGHT, "I cannot.")
    assert bench.stream.finish_reason == "content_filter"


async def test_a_program_is_told_a_refusal_as_one() -> None:
    bench = Bench(kind=COMPLETION)
    call = await bench.start()
    call.push(Part(PartKind.REFUSAL, "I cannot."))
    call.finish()
    await settle()
    assert bench.stream.log.read(0).current == (Part(PartKind.REFUSAL, "I cannot."),)
    assert bench.stream.finish_reason == "stop"


# -- retry and fallback ----------------------------------------------------------------------------


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
async def test_after_the_last_attempt_the_error_is_the_end_and_what_was_delivered_stays(
    retries: int,
) -> None:
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


async def test_where_nothing_was_delivered_the_fallback_answer_stands_in_marked_degraded() -> None:
    bench = Bench(fallback_text="Please ask again.")
    await bench.start()
    for number in range(2):
        bench.source.calls[number].fail(BROKEN)
        await settle()
    assert bench.ended == [ResponseState.COMPLETED]
    assert bench.stream.degraded
    assert bench.stream.finish_reason == "stop"
    assert bench.reader.held.text == "Please ask again."


async def test_text_that_a_reader_has_is_never_replaced_by_the_fallback() -> None:
    bench = Bench(fallback_text="Please ask again.")
    await bench.start()
    for number in range(2):
        bench.source.calls[number].push("half an ", "answer")
        bench.source.calls[number].fail(BROKEN)
        await settle()
    assert bench.ended == [ResponseState.ERROR]
    assert (bench.stream.degraded, error_code(bench.stream)) == (False, "upstream_failed")
    assert bench.reader.held.text == "half an answer"


async def test_what_was_delivered_stands_until_the_next_attempt_gives_its_first_token() -> None:
    bench = Bench()
    call = await bench.start()
    call.push("half an ", "answer")
    call.fail(BROKEN)
    await settle()
    bench.source.calls[1].sink.alive()
    await bench.pass_time(1.0)
    assert bench.reader.held.text == "half an answer"
    bench.source.calls[1].push("")
    assert bench.reader.held.text == "half an answer"
    bench.source.calls[1].push("once more")
    await bench.pass_time(1.0)
    assert bench.reader.held.text == "once more"


async def test_the_text_stands_when_the_next_attempt_dies_before_any() -> None:
    bench = Bench()
    call = await bench.start()
    call.push("half an ", "answer")
    call.fail(BROKEN)
    await settle()
    bench.source.calls[1].fail(BROKEN)
    await settle()
    assert bench.ended == [ResponseState.ERROR]
    assert bench.stream.log.entries == ["half an ", "answer"]
    assert bench.reader.held.text == "half an answer"


@pytest.mark.parametrize("further", ["half", Part(PartKind.CALL, id="c", name="f")])
async def test_reasoning_alone_is_replaced_by_what_the_next_attempt_gives(
    further: Content,
) -> None:
    bench = Bench(fallback_text="Please ask again.")
    call = await bench.start()
    call.push(_THOUGHT)
    call.fail(BROKEN)
    await settle()
    bench.source.calls[1].push(_THOUGHT.with_text(""))
    assert bench.stream.log.entries == [_THOUGHT], "nothing has come"
    bench.source.calls[1].push(further)
    bench.source.calls[1].finish()
    await settle()
    assert bench.stream.log.entries == [_THOUGHT, Restart(-1, 2), further]


async def test_reasoning_that_a_reader_has_is_never_followed_by_the_fallback() -> None:
    bench = Bench(fallback_text="Please ask again.", limits=Limits(model_retries=0))
    call = await bench.start()
    call.push(_THOUGHT)
    call.fail(BROKEN)
    await settle()
    assert (bench.ended, bench.stream.degraded) == ([ResponseState.ERROR], False)
    assert bench.stream.log.read(0).current == (_THOUGHT,)


async def test_a_failed_attempt_is_no_measure_of_how_soon_the_model_answers() -> None:
    bench = Bench()
    limiter = bench.generation.upstream.limiter
    limiter.acquire("rsp_1", "public", "sender", 0.0, 10)
    call = await bench.start()
    call.fail(BROKEN)
    await settle()
    assert (len(bench.source.calls), limiter.prefills_of("public")) == (2, 1), (
        "it has no token still"
    )
    assert not limiter._prefills["rsp_1"].measured
    bench.source.calls[1].finish()
    await settle()


async def test_an_attempt_that_begins_again_and_says_nothing_has_failed() -> None:
    """An empty answer would take away the text that stands."""
    bench = Bench()
    call = await bench.start()
    call.push("half")
    call.fail(BROKEN)
    await settle()
    bench.source.calls[1].finish()
    await settle()
    assert bench.ended == [ResponseState.ERROR]
    assert bench.reader.held.text == "half"


async def test_an_attempt_that_failed_behind_text_is_continued_where_the_source_can() -> None:
    bench = Bench(source=ControlledSource(continues=True))
    call = await bench.start()
    call.push("Even", "flow ")
    call.fail(BROKEN)
    await settle()
    again = bench.source.calls[1]
    assert again.request == ModelRequest("demo", TURNS, 2, "Evenflow ", "rsp_1:1:2", caller=CALLER)
    again.push("delivers.")
    again.finish()
    await settle()
    assert bench.ended == [ResponseState.COMPLETED]
    assert bench.stream.log.restarts == ()
    assert bench.reader.held.text == "Evenflow delivers."


async def test_from_within_calls_it_is_begun_again() -> None:
    bench = Bench(source=ControlledSource(continues=True), can_go_on=False)
    call = await bench.start()
    call.push("calls")
    call.fail(BROKEN)
    await settle()
    assert bench.source.calls[1].request.prefix == ""


async def test_the_fallback_answer_is_no_token_of_a_model() -> None:
    bench = Bench(limits=Limits(model_retries=0), fallback_text="Please ask again.")
    call = await bench.start()
    call.fail(BROKEN)
    await settle()
    assert bench.stream.tokens == 0


async def test_a_full_log_is_no_hindrance_to_the_end() -> None:
    bench = Bench(
        limits=Limits(model_retries=0, response_bytes=1024), fallback_text="Please ask again."
    )
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


STARTING = UpstreamAnswered(
    "loading", code="upstream_overloaded", status=503, type=Overloaded.type, retry_after_ms=3000
)
TOO_MANY = UpstreamAnswered("too many", code="upstream_throttled", status=429, retry_after_ms=3000)
SERVER_ERROR = UpstreamAnswered("failed", code="upstream_failed", status=502)


@pytest.mark.parametrize("told", [STARTING, TOO_MANY], ids=["503", "429"])
async def test_who_repeats_by_itself_is_told_at_once_what_the_model_s_server_answered(
    told: UpstreamAnswered,
) -> None:
    bench = Bench(kind=COMPLETION)
    call = await bench.start()
    call.fail(told)
    await settle()
    assert bench.ended == [ResponseState.ERROR]
    assert bench.stream.error == told.to_object()
    assert (bench.stream.error["status"], len(bench.source.calls)) == (told.status, 1)


async def test_what_is_no_answer_of_the_server_is_tried_again_for_everybody() -> None:
    bench = Bench(kind=COMPLETION)
    call = await bench.start()
    call.fail(BROKEN)
    await settle()
    assert len(bench.source.calls) == 2


async def test_another_attempt_waits_for_as_long_as_the_server_said() -> None:
    bench = Bench()
    bench.clock.drive_timers()
    call = await bench.start()
    call.fail(STARTING)
    await bench.clock.pass_time(2.9)
    assert len(bench.source.calls) == 1
    await bench.clock.pass_time(0.8)
    assert len(bench.source.calls) == 2


@pytest.mark.parametrize("kind", [CHAT, KEYED_COMPLETION])
async def test_who_is_throttled_gives_its_place_up_and_goes_on_with_another(
    kind: MessageKind,
) -> None:
    bench = Bench(kind=kind)
    for attempt in (1, 2):
        call = await bench.start() if attempt == 1 else bench.source.calls[-1]
        call.fail(TOO_MANY)
        await settle()
        assert (len(bench.waiting), len(bench.source.calls)) == (attempt, attempt)
        bench.generation.on_slot()
        await settle()
        assert len(bench.source.calls) == attempt + 1
    last = bench.source.calls[-1]
    assert (last.request.attempt, bench.retries) == (3, 0)
    last.push("Here.")
    last.finish()
    await settle()
    assert bench.ended == [ResponseState.COMPLETED]


async def test_a_server_that_refuses_at_the_time_it_named_is_asked_three_times() -> None:
    bench = Bench()
    call = await bench.start()
    for _ in range(2):
        call.fail(TOO_MANY)
        await bench.pass_time(3)
        bench.generation.on_slot()
        await settle()
        call = bench.source.calls[-1]
    call.fail(TOO_MANY)
    await bench.pass_time(10)
    assert (len(bench.source.calls), bench.ended) == (3, [ResponseState.ERROR])
    assert bench.stream.error == TOO_MANY.to_object()


@pytest.mark.parametrize(
    ("service_class", "wanted", "ends_after"),
    [
        (ServiceClass.INTERACTIVE, 11_000, 0),
        (ServiceClass.INTERACTIVE, None, 10),
        (ServiceClass.BATCH, 11_000, 60),
    ],
)
async def test_a_server_that_refuses_everybody_is_waited_for_as_long_as_a_person_waits(
    service_class: ServiceClass, wanted: int | None, ends_after: int
) -> None:
    bench = Bench()
    bench.generation.line = Line("public", service_class=service_class)
    call = await bench.start()
    call.fail(UpstreamAnswered("no", code="upstream_throttled", status=429, retry_after_ms=wanted))
    await settle()
    if ends_after:
        await bench.pass_time(ends_after - 1)
        assert bench.ended == []
        await bench.pass_time(4)
    assert (len(bench.source.calls), error_code(bench.stream)) == (1, "upstream_throttled")


async def test_a_server_that_answers_another_call_is_waited_for_longer() -> None:
    bench = Bench()
    limiter = bench.generation.upstream.limiter
    for _ in range(2):
        limiter.acquire("", "public", "sender", 0.0, None)  # this one, and another that goes on
    (await bench.start()).fail(TOO_MANY)
    await settle()
    limiter.release("", "public", "sender")
    await bench.pass_time(30)
    assert bench.ended == []
    limiter.release("", "public", "sender")
    limiter.backoff.record_acceptance(began_at=0.0)
    await bench.pass_time(1)
    assert bench.ended == [], "a place has just become free"
    bench.generation.cancel()
    await settle()


async def test_a_server_that_throttles_without_end_is_asked_five_times() -> None:
    bench = Bench()
    limiter = bench.generation.upstream.limiter
    for _ in range(2):
        limiter.acquire(
            "", "public", "sender", 0.0, None
        )  # this one, and another that goes on: it doesn't refuse all
    call = await bench.start()
    while not bench.ended:
        call.fail(TOO_MANY)
        await settle()
        if bench.waiting and not bench.ended:
            bench.generation.on_slot()
            await settle()
            call = bench.source.calls[-1]
    assert (len(bench.source.calls), error_code(bench.stream)) == (5, "upstream_throttled")


@pytest.mark.parametrize("told", [STARTING, TOO_MANY, SERVER_ERROR], ids=["503", "429", "500"])
async def test_a_kept_response_without_a_key_costs_one_call(told: UpstreamAnswered) -> None:
    bench = Bench(kind=UNKEYED_RESPONSE)
    (await bench.start()).fail(told)
    await settle()
    assert (len(bench.source.calls), bench.stream.error) == (1, told.to_object())


async def test_a_client_that_retries_is_not_retried_for_though_nothing_had_begun() -> None:
    bench = Bench(kind=UNKEYED_RESPONSE.model_copy(update={"client_retries": True}))
    (await bench.start()).fail(BROKEN)
    await settle()
    assert (len(bench.source.calls), bench.ended) == (1, [ResponseState.ERROR])


@pytest.mark.parametrize(("retries", "ended"), [(False, []), (True, [ResponseState.ERROR])])
async def test_nor_does_it_wait_for_a_place_that_another_call_leaves(
    retries: bool, ended: list[ResponseState]
) -> None:
    bench = Bench(kind=COMPLETION.model_copy(update={"client_retries": retries}))
    for _ in range(2):
        bench.generation.upstream.limiter.acquire(
            "", "t", "sender", 0.0, None
        )  # this one, and another that has a token
    no_time = UpstreamAnswered("no", code="upstream_throttled", status=429)
    (await bench.start()).fail(no_time)
    await settle()
    assert bench.ended == ended
    bench.generation.cancel()
    await settle()


@pytest.mark.parametrize(("kind", "held"), [(CHAT, True), (COMPLETION, False)])
async def test_a_held_sender_waits_unless_it_decides_itself_when_to_ask_again(
    kind: MessageKind, held: bool
) -> None:
    bench = Bench(kind=kind)
    generation, limiter = bench.generation, bench.generation.upstream.limiter
    for text in ("one", "another"):
        limiter.acquire(text, "public", "sender", 0.0, None)
        limiter.record_rejection(0.0, 0.0, 5.0, RejectedCall(generation.sender_key, text, text))
        limiter.release(text, "public", "sender")
    assert (generation.not_before > 0) is held


async def test_throttling_costs_none_of_the_attempts_that_failures_have() -> None:
    bench = Bench(limits=Limits(model_retries=1))
    (await bench.start()).fail(TOO_MANY)
    await settle()
    bench.generation.on_slot()
    await settle()
    bench.source.calls[-1].fail(BROKEN)
    await bench.pass_time(1)
    assert (len(bench.source.calls), bench.ended) == (3, [])


async def test_who_gets_no_turn_after_a_throttle_is_told_what_the_server_said() -> None:
    bench = Bench(limits=Limits(queue_deadline_seconds=10))
    (await bench.start()).fail(TOO_MANY)
    await settle()
    await bench.pass_time(11)
    assert bench.ended == [ResponseState.ERROR]
    assert bench.stream.error == TOO_MANY.to_object()


async def test_cancelled_while_it_waits_for_quota_it_asks_no_more() -> None:
    bench = Bench()
    (await bench.start()).fail(TOO_MANY)
    await settle()
    bench.generation.cancel()
    await settle()
    assert (bench.ended, len(bench.source.calls)) == ([ResponseState.CANCELLED], 1)


async def test_who_is_throttled_for_long_is_told_for_how_long() -> None:
    bench = Bench()
    call = await bench.start()
    call.fail(
        UpstreamAnswered("too many", code="upstream_throttled", status=429, retry_after_ms=60_000)
    )
    await settle()
    assert bench.ended == [ResponseState.ERROR]
    assert bench.stream.error is not None
    assert bench.stream.error["retry_after_ms"] == 60_000


async def test_no_attempt_is_waited_for_that_would_begin_behind_the_deadline() -> None:
    limits = Limits(model_deadline_seconds=2, model_first_sign_seconds=2, model_silence_seconds=2)
    bench = Bench(limits=limits)
    call = await bench.start()
    call.fail(TOO_MANY)
    await settle()
    assert bench.ended == [ResponseState.ERROR]
    assert bench.stream.error == TOO_MANY.to_object()


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


async def test_what_is_no_part_of_an_answer_is_the_model_s_failure_and_the_text_stays() -> None:
    bench = Bench()
    await bench.start()
    for number in range(2):
        bench.source.calls[number].push("Even", Part(PartKind.DATA, "{", name="source"))
        await settle()
    assert bench.ended == [ResponseState.ERROR]
    assert error_code(bench.stream) == "upstream_failed"
    assert "the value of data is not JSON" in str(bench.stream.error)
    assert bench.reader.held.text == "Even"
    assert bench.retries == 1


# -- deadlines -------------------------------------------------------------------------------------


async def test_a_model_without_a_sign_of_life_is_given_up_at_the_deadline_and_tried_again() -> None:
    bench = Bench()
    call = await bench.start()
    await bench.pass_time(59.5)
    assert call.closed == 0
    await bench.pass_time(0.6)
    assert (call.closed, len(bench.source.calls), bench.retries) == (1, 2, 1)
    await bench.pass_time(60.1)
    assert bench.ended == [ResponseState.ERROR]
    assert error_code(bench.stream) == "first_token_timeout"


async def test_an_answer_may_take_minutes_as_long_as_it_goes_on() -> None:
    bench = Bench()
    call = await bench.start()
    for _ in range(40):
        call.push("word ")
        await bench.pass_time(5.0)
    call.finish()
    await settle()
    assert bench.ended == [ResponseState.COMPLETED]
    assert bench.reader.held.text == "word " * 40
    assert bench.retries == 0


async def test_a_model_that_thinks_lives() -> None:
    bench = Bench()
    call = await bench.start()
    for _ in range(10):
        await bench.pass_time(50.0)
        call.sink.alive()
    call.push("42")
    call.finish()
    await settle()
    assert bench.reader.held.text == "42"
    assert (bench.ended, bench.retries) == ([ResponseState.COMPLETED], 0)


@pytest.mark.parametrize("sign", ["token", "sign of life"])
async def test_a_model_that_falls_silent_is_given_up_and_its_text_stands(sign: str) -> None:
    bench = Bench(limits=Limits(model_retries=0))
    call = await bench.start()
    call.push("a")
    await bench.pass_time(50.0)
    if sign == "token":
        call.push("b")
    else:
        call.sink.alive()
    await bench.pass_time(59.0)
    assert call.closed == 0
    await bench.pass_time(4.1)
    assert call.closed == 1
    assert bench.ended == [ResponseState.ERROR]
    assert error_code(bench.stream) == "model_timeout"
    assert bench.reader.held.text == ("ab" if sign == "token" else "a")


async def test_the_last_deadline_is_of_the_whole_response_and_the_text_stays_cut_short() -> None:
    bench = Bench(limits=Limits(model_deadline_seconds=100))
    first = await bench.start()
    await bench.pass_time(50.0)
    first.fail(BROKEN)
    await settle()
    second = bench.source.calls[1]
    for _ in range(10):
        second.push("b")
        await bench.pass_time(5.2)
    assert second.closed == 1
    assert bench.ended == [ResponseState.COMPLETED]
    assert (bench.stream.finish_reason, bench.stream.error) == ("length", None)
    assert bench.reader.held.text == "b" * 10
    assert len(bench.source.calls) == 2


async def test_at_the_last_deadline_text_of_an_earlier_attempt_stays_too() -> None:
    bench = Bench(limits=Limits(model_deadline_seconds=100, model_first_sign_seconds=80))
    first = await bench.start()
    first.push("half an answer")
    await bench.pass_time(50.0)
    first.fail(BROKEN)
    await bench.pass_time(50.5)
    assert bench.ended == [ResponseState.COMPLETED]
    assert (bench.stream.finish_reason, bench.reader.held.text) == ("length", "half an answer")


async def test_at_the_last_deadline_reasoning_stays_cut_short() -> None:
    bench = Bench(limits=Limits(model_deadline_seconds=60))
    call = await bench.start()
    call.push(_THOUGHT)
    await bench.pass_time(62.0)
    assert bench.ended == [ResponseState.COMPLETED]
    assert bench.stream.finish_reason == "length"


async def test_without_any_text_the_last_deadline_is_an_error_and_not_tried_again() -> None:
    bench = Bench(limits=Limits(model_deadline_seconds=100))
    call = await bench.start()
    for _ in range(10):
        call.sink.alive()
        await bench.pass_time(10.1)
    assert bench.ended == [ResponseState.ERROR]
    assert (error_code(bench.stream), bench.retries) == ("model_timeout", 0)


async def test_tokens_of_the_first_attempt_are_no_sign_of_life_of_the_second() -> None:
    bench = Bench()
    first = await bench.start()
    first.push("a")
    first.fail(BROKEN)
    await settle()
    await bench.pass_time(60.1)
    assert bench.source.calls[1].closed == 1
    assert error_code(bench.stream) == "first_token_timeout"
    assert bench.reader.held.text == "a"


async def test_the_wait_in_the_queue_has_a_deadline_of_its_own() -> None:
    bench = Bench()
    await bench.pass_time(59.0)
    assert bench.ended == []
    await bench.pass_time(1.1)
    assert bench.ended == [ResponseState.ERROR]
    assert bench.stream.error is not None
    assert (bench.stream.error["type"], bench.stream.error["code"]) == (
        "overloaded_error",
        "queue_timeout",
    )
    assert bench.stream.error["retry_after_ms"] > 0
    assert bench.source.calls == []


async def test_the_wait_in_the_queue_takes_nothing_from_the_model_s_time() -> None:
    bench = Bench()
    await bench.pass_time(59.0)
    call = await bench.start()
    await bench.pass_time(59.0)
    assert call.closed == 0


async def test_a_held_model_owes_nothing() -> None:
    bench = Bench(limits=Limits(model_retries=0, grace_seconds=3600))
    call = await bench.start()
    call.push("a")
    bench.reader.pauses_model = True
    bench.reader.pause()
    assert call.sink.paused
    await bench.pass_time(200.0)
    assert call.closed == 0
    bench.reader.resume()
    assert not call.sink.paused
    await bench.pass_time(50.0)
    assert call.closed == 0
    await bench.pass_time(14.0)
    assert call.closed == 1


async def test_a_model_that_is_given_up_and_takes_its_time_to_close_ends_the_same() -> None:
    bench = Bench(limits=Limits(model_retries=0), source=ControlledSource(close_steps=5))
    call = await bench.start()
    await bench.pass_time(61.0)
    assert call.closed == 1
    assert bench.ended == [ResponseState.ERROR]


# -- nobody reads ----------------------------------------------------------------------------------


async def test_without_a_reader_the_model_goes_on_for_the_grace_period_and_is_then_cancelled() -> (
    None
):
    bench = Bench()
    call = await bench.start()
    call.push("a")
    bench.reader.leave()
    await bench.pass_time(29.0)
    assert call.closed == 0
    await bench.pass_time(1.1)
    assert call.closed == 1
    assert bench.ended == [ResponseState.CANCELLED]
    assert bench.stream.finish_reason == "abandoned"
    assert bench.stream.is_remembered, "who comes back may have it continued"


async def test_without_a_reader_and_a_grace_the_model_goes_on_to_its_end() -> None:
    bench = Bench(grace_seconds=math.inf)
    call = await bench.start()
    bench.reader.leave()
    for token in "abcdef":
        call.push(token)
        await bench.pass_time(50.0)
    assert call.closed == 0
    call.finish()
    await settle()
    assert bench.ended == [ResponseState.COMPLETED]
    assert bench.stream.log.text == "abcdef"


async def test_hanging_up_cancels_a_request_that_can_not_be_repeated() -> None:
    bench = Bench(kind=COMPLETION, grace_seconds=1.0)
    await bench.start()
    bench.reader.leave()
    await bench.pass_time(2.0)
    assert bench.stream.finish_reason == "cancelled"
    assert not bench.stream.is_remembered


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


async def test_the_grace_stands_still_while_the_lease_of_the_node_has_lapsed() -> None:
    """Without the store the node does not see the polls of other nodes."""
    bench = Bench(limits=PATIENT)
    await bench.start()
    bench.reader.leave()
    await bench.pass_time(9.0)
    bench.in_force = False
    await bench.pass_time(90.0)
    bench.in_force = True
    await bench.pass_time(15.0)
    assert bench.ended == []
    await bench.pass_time(10.0)
    assert bench.ended == [ResponseState.CANCELLED]


async def test_hanging_up_cancels_while_the_lease_of_the_node_has_lapsed_too() -> None:
    """Who hung up a request that can't be repeated does not come back."""
    bench = Bench(kind=COMPLETION, grace_seconds=1.0, in_force=False)
    await bench.start()
    bench.reader.leave()
    await bench.pass_time(2.0)
    assert bench.stream.finish_reason == "cancelled"


async def test_the_grace_stands_still_while_the_node_is_starved() -> None:
    """Readers who come back can't be served then."""
    bench = Bench(limits=PATIENT)
    await bench.start()
    bench.reader.leave()
    bench.clock.now += 60.0
    await bench.pass_time(24.0)
    assert bench.ended == []
    await bench.pass_time(7.0)
    assert bench.ended == [ResponseState.CANCELLED]


async def test_a_model_is_not_late_while_the_node_is_starved() -> None:
    bench = Bench(limits=Limits(model_silence_seconds=60.0), kind=COMPLETION)
    call = await bench.start()
    call.push("a")
    await bench.pass_time(4.0)
    bench.clock.now += 90.0
    await bench.pass_time(50.0)
    assert call.closed == 0
    await bench.pass_time(15.0)
    assert call.closed == 1


# -- cancel and interrupt at any moment ------------------------------------------------------------


STEPS = ("start", "begin", "push", "fail", "retry", "push again", "finish", "close")


async def _play(bench: Bench, step: str) -> None:
    calls = bench.source.calls
    match step:
        case "start" if not bench.stream.state.terminal:
            bench.generation.start(bench.background)
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
@settings(max_examples=4 * settings().max_examples)
async def test_whenever_it_is_stopped_the_model_is_closed_once_and_the_end_told_once(
    moment: int, loop_steps: int, how: str, again: str, source: ControlledSource, fallback_text: str
) -> None:
    """Whatever a source makes of its cancellation: nothing, an error of its own, an end as if
    nothing had happened.
    """
    bench = Bench(fallback_text=fallback_text, source=source, read=how != "grace")
    stop: dict[str, EvenflowError | None] = {
        "cancel": None,
        "interrupt": Overloaded("leaving", code="draining"),
    }
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
                bench.generation.fail(error)
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
    assert task is None or (task.done() and task.exception() is None), (
        "nothing is left to be reported"
    )


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
    bench.generation.fail(Overloaded("leaving", code="draining"))
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


# -- a backend that must not be asked twice --------------------------------------------------------

_GIVEN = ["I book it.", Part(PartKind.REASONING, "Hm"), Part(PartKind.CALL, id="c", name="book")]


@pytest.mark.parametrize("said", _GIVEN, ids=["text", "reasoning", "a call"])
async def test_an_agent_that_has_given_anything_is_not_run_again(said: Content) -> None:
    bench = Bench(may_call_again=False, fallback_text="Please ask again.")
    call = await bench.start()
    call.push(said)
    call.fail(BROKEN)
    await bench.pass_time(1)
    assert (len(bench.source.calls), bench.ended) == (1, [ResponseState.ERROR])
    assert bench.stream.error == BROKEN.to_object()
    assert bench.stream.log.entries == [said]


async def test_nor_if_it_fell_silent() -> None:
    bench = Bench(may_call_again=False, limits=Limits(model_silence_seconds=1))
    (await bench.start()).push("I book it.")
    await bench.pass_time(10)
    assert (len(bench.source.calls), error_code(bench.stream)) == (1, "model_timeout")


async def test_one_that_has_given_nothing_is_run_again() -> None:
    bench = Bench(may_call_again=False)
    call = await bench.start()
    call.sink.alive()
    call.fail(BROKEN)
    await settle()
    again = bench.source.calls[1]
    again.push("Booked.")
    again.finish()
    await settle()
    assert (bench.stream.log.text, bench.ended) == ("Booked.", [ResponseState.COMPLETED])


async def test_what_a_backend_says_to_readers_is_its_last_word() -> None:
    bench = Bench(fallback_text="Please ask again.")
    call = await bench.start()
    call.fail(UpstreamExplained("No stock data today.", code="upstream_explained"))
    await settle()
    assert (len(bench.source.calls), bench.ended) == (1, [ResponseState.ERROR])
    assert bench.stream.error is not None
    assert bench.stream.error["message"] == "No stock data today."
