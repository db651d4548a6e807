from __future__ import annotations

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.protocols.evenflow.messages import ResponseCompleted, ResponseFailed
from evenflow.stream_core.protocols.evenflow.response_frames import terminal_frame
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream


def test_a_completed_response_says_why_and_what_it_used() -> None:
    stream = new_stream(HandTurnedClock())
    stream.push("a")
    stream.push("b")
    stream.complete("length", Usage(prompt_tokens=3, completion_tokens=2))
    assert terminal_frame(stream) == ResponseCompleted(
        type="chat.response.completed",
        session_id="ses_1",
        response_id="rsp_1",
        message_id="m1",
        finish_reason="length",
        last_index=1,
        usage=Usage(prompt_tokens=3, completion_tokens=2),
        degraded=False,
    )


def test_a_cancelled_response_is_completed_with_that_reason() -> None:
    stream = new_stream(HandTurnedClock(), start=False)
    stream.cancel()
    frame = terminal_frame(stream)
    assert isinstance(frame, ResponseCompleted)
    assert (frame.finish_reason, frame.last_index, frame.usage) == ("cancelled", -1, None)


def test_a_failed_response_keeps_what_was_delivered_and_carries_the_error() -> None:
    stream = new_stream(HandTurnedClock())
    stream.push("a")
    stream.fail({"code": "upstream_failed"})
    frame = terminal_frame(stream)
    assert isinstance(frame, ResponseFailed)
    assert (frame.last_index, frame.error) == (0, {"code": "upstream_failed"})
