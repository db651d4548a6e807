"""The spans of one answer, from the times that its response and its generation have."""

from __future__ import annotations

import gc
import weakref

import pytest
from opentelemetry.trace import StatusCode

from evenflow.fargate_handler.tracing.answer_trace import AnswerTrace, AnswerTraces
from evenflow.fargate_handler.tracing.chosen_ids import answer_span_id
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from tests.unit.fargate_handler.tracing.finished_spans import FinishedSpans
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import AssembledText, RecordingReader

_RESPONSE = f"rsp_{'ab' * 16}"
_TRACE, _PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_CALLER = f"00-{_TRACE}-{_PARENT}-01"


class Traced:
    """A response that is followed, with its time in the test's hand. It began at 1000 s."""

    def __init__(self, epoch: int = 1, caller: str = _CALLER, ratio: float = 1.0) -> None:
        self.clock = HandTurnedClock()
        self.finished = FinishedSpans(self.clock, ratio)
        self.stream = ResponseStream(
            response_id=_RESPONSE,
            message_id="m1",
            channel=Channel("acme", "demo", "ses_secret"),
            clock=self.clock.delivery,
            limits=Limits(),
            monotonic=self.clock.monotonic,
        )
        if epoch > 1:
            self.stream.adopt_log(["It was "], epoch, self.clock.now - 9)
        self.clock.turn(1)
        self.trace = AnswerTraces(self.finished.spans, "bedrock", "claude").begin(
            self.stream, caller, "", self.clock.now - 1, taken_over=epoch > 1
        )
        self.stream.observe(self.trace)

    @property
    def followed(self) -> AnswerTrace:
        """The trace, which is sampled."""
        assert self.trace is not None
        return self.trace

    def start(self) -> None:
        """The model is asked, 2 s after the message was accepted."""
        self.clock.turn(2)
        self.stream.start()
        self.followed.started()
        self.clock.turn(3)


def test_each_phase_is_a_span_of_its_time() -> None:
    traced = Traced()
    traced.start()
    traced.stream.push("Hello")
    traced.clock.turn(4)
    traced.stream.complete("stop", Usage(prompt_tokens=3, completion_tokens=1, cached_tokens=2))
    traced.followed.generated()
    finished = traced.finished
    assert {name: finished.seconds(name) for name in finished.all} == {
        "accept": (1000, 1001),
        "queue": (1001, 1003),
        "prefill": (1003, 1006),
        "decode": (1006, 1010),
        "chat claude": (1003, 1010),
        "answer": (1000, 1010),
    }
    assert dict(finished.all["chat claude"].attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "aws.bedrock",
        "gen_ai.request.model": "claude",
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": pytest.approx(3),
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 1,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "evenflow.attempts": 1,
    }
    assert dict(finished.all["answer"].attributes or {}) == {
        "evenflow.response_id": _RESPONSE,
        "evenflow.tenant": "acme",
        "gen_ai.agent.name": "demo",
        "evenflow.epoch": 1,
        "evenflow.state": "completed",
    }


def test_the_model_is_told_the_span_of_its_call() -> None:
    traced = Traced()
    traced.start()
    told = traced.followed.traceparent
    traced.stream.cancel()
    traced.followed.generated()
    context = traced.finished.all["chat claude"].context
    assert told == f"00-{_TRACE}-{context.span_id:016x}-01"


def test_one_that_never_gets_a_place_has_waited_and_nothing_else() -> None:
    traced = Traced()
    traced.clock.turn(2)
    traced.stream.cancel()
    traced.followed.generated()
    assert set(traced.finished.all) == {"accept", "queue", "answer"}
    assert traced.finished.seconds("queue") == (1001, 1003)


def test_an_error_is_its_code() -> None:
    traced = Traced()
    traced.start()
    traced.stream.fail({"code": "upstream_failed", "message": "what a server said"})
    traced.followed.generated()
    for name in ("answer", "chat claude"):
        span = traced.finished.all[name]
        assert (span.attributes or {})["error.type"] == "upstream_failed"
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    # No token came, so the model never got further than this.
    assert "decode" not in traced.finished.all
    assert traced.finished.seconds("prefill") == traced.finished.seconds("chat claude")


def test_one_that_another_task_goes_on_with_has_not_ended() -> None:
    traced = Traced()
    traced.start()
    traced.followed.generated()
    answer = traced.finished.all["answer"]
    assert (answer.attributes or {})["evenflow.state"] == "handed_over"
    assert answer.status.status_code is StatusCode.UNSET


def test_a_task_that_takes_over_is_in_the_client_s_trace_and_links_to_the_one_before() -> None:
    traced = Traced(epoch=3)
    traced.start()
    traced.stream.push("a dark ")
    traced.followed.first_token()
    traced.clock.turn(4)
    traced.stream.complete("stop", None)
    traced.followed.generated()
    answer = traced.finished.all["answer"]
    assert answer.parent is not None
    assert (f"{answer.parent.span_id:016x}", f"{answer.context.trace_id:032x}") == (_PARENT, _TRACE)
    (link,) = answer.links
    assert link.context.span_id == answer_span_id(_RESPONSE, 2)
    assert link.context.trace_id == answer.context.trace_id
    assert "accept" not in traced.finished.all
    assert traced.finished.seconds("take_over") == (1000, 1001)
    # Not since the first delta, which came at another task.
    assert traced.finished.seconds("decode") == (1006, 1010)


def test_all_owners_are_in_one_trace_though_no_client_began_it() -> None:
    first, second = Traced(caller=""), Traced(epoch=2, caller="")
    for traced in (first, second):
        traced.stream.cancel()
        traced.followed.generated()
    before, after = (traced.finished.all["answer"] for traced in (first, second))
    assert before.parent is after.parent is None
    assert f"{before.context.trace_id:032x}" == _RESPONSE.removeprefix("rsp_")
    assert after.context.trace_id == before.context.trace_id
    assert after.links[0].context.span_id == before.context.span_id


def test_each_reader_is_a_span_also_one_that_comes_after_the_end() -> None:
    traced = Traced()
    reader = RecordingReader(traced.stream, traced.clock, AssembledText())
    traced.stream.attach(reader)
    traced.clock.turn(1)
    traced.stream.cancel()
    traced.followed.generated()
    traced.stream.detach(reader)
    assert traced.finished.seconds("emit") == (1001, 1002)
    traced.clock.turn(5)
    traced.stream.attach(reader)
    emit, answer = traced.finished.all["emit"], traced.finished.all["answer"]
    assert traced.finished.seconds("emit") == (1007, 1007)
    assert emit.parent is not None
    assert emit.parent.span_id == answer.context.span_id
    assert dict(emit.attributes or {}) == {"evenflow.transport": "http"}


@pytest.mark.parametrize(("caller", "ratio"), [(_CALLER.removesuffix("01") + "00", 1.0), ("", 0.0)])
def test_what_is_not_sampled_is_not_followed(caller: str, ratio: float) -> None:
    traced = Traced(caller=caller, ratio=ratio)
    assert traced.trace is None
    assert traced.finished.all == {}


def test_a_trace_that_is_over_and_its_response_need_no_garbage_collection() -> None:
    traced = Traced()
    traced.start()
    traced.stream.cancel()
    traced.followed.generated()
    trace = weakref.ref(traced.followed)
    gc.disable()
    try:
        del traced
        assert trace() is None
    finally:
        gc.enable()
