from __future__ import annotations

import hashlib

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.records.answer_record import AnswerRecord, answer_record
from evenflow.stream_core.records.reader_record import ReaderFigures
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import CHANNEL, new_stream, reading

_PRICES = ModelPrices.parse("big=1/10")


def test_the_line_of_an_answer_has_its_figures() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock, start=False)
    stream.figures.model, stream.figures.trace = "big", "4bf92f"
    clock.turn(0.3)
    stream.start()
    figures = ReaderFigures(stream, "evenflow.v1", "websocket", 0, clock.now)
    reading(stream, clock)
    clock.turn(0.2)
    for token in ("Even", "flow", " delivers", "."):
        stream.push(token)
        clock.turn(0.1)
    stream.acknowledge(1)
    figures.left_record(stream, 3, clock.now)
    stream.complete("stop", Usage(20, 7, cached_tokens=5))
    line = answer_record(stream, _PRICES)
    assert line == AnswerRecord(
        tenant="public",
        agent="demo",
        session=hashlib.sha256(b"ses_1").hexdigest()[:16],
        message_id="m1",
        response_id="rsp_1",
        trace="4bf92f",
        model="big",
        protocol="evenflow.v1",
        transport="websocket",
        state="completed",
        finish_reason="stop",
        epoch=1,
        attempt=1,
        retries=0,
        input_tokens=20,
        output_tokens=7,
        cached_tokens=5,
        tokens_counted_by="model",
        cost_usd=0.00009,
        entries_generated=4,
        entries_delivered=3,
        entries_acknowledged=2,
        queue_ms=300.0,
        first_token_ms=500.0,
        token_gap_p50_ms=line.token_gap_p50_ms,
        token_gap_p95_ms=line.token_gap_p95_ms,
        token_gap_max_ms=line.token_gap_max_ms,
        stalls=0,
        duration_ms=900.0,
    )
    assert line.token_gap_max_ms is not None
    assert abs(line.token_gap_max_ms - 100) < 11
    assert CHANNEL.session not in str(line.to_fields())


def test_a_field_that_is_not_known_is_left_out() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    stream.push("Even")
    stream.cancel()
    fields = answer_record(stream, _PRICES).to_fields()
    assert (fields["event"], fields["state"]) == ("answer", "cancelled")
    assert (fields["output_tokens"], fields["tokens_counted_by"]) == (1, "pieces")
    absent = {"model", "protocol", "input_tokens", "cost_usd", "degraded", "error", "polls"}
    assert not absent & fields.keys()


def test_an_error_is_its_code_and_attempts_are_counted() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    stream.push("Even")
    stream.next_attempt()
    stream.fail(UpstreamFailed("the user's text", code="upstream_failed").to_object())
    line = answer_record(stream, _PRICES)
    assert (line.state, line.error, line.attempt, line.retries) == (
        "error",
        "upstream_failed",
        2,
        1,
    )
    assert "the user's text" not in str(line.to_fields()) + str(line)


def test_of_an_answer_that_was_taken_over_nobody_knows_when_it_was_accepted() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock, start=False)
    stream.adopt_log(["Even", Restart(0, 1, 2)], 3, clock.now - 5)
    stream.start()
    stream.push("flow")
    clock.turn(0.1)
    stream.push(".")
    stream.complete("stop", Usage(3, 2))
    line = answer_record(stream, _PRICES)
    assert (line.epoch, line.retries, line.output_tokens) == (3, 0, 2)
    assert (line.queue_ms, line.first_token_ms) == (None, None)
    assert line.token_gap_p50_ms is not None, "of what this task gave"
    assert line.entries_generated == stream.log.next_index


def test_changes_of_transport_are_counted_and_the_first_one_is_named() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    before = [
        ReaderFigures(stream, "evenflow", transport, 0, clock.now)
        .left_record(stream, 0, clock.now)
        .transport_before
        for transport in ("websocket", "websocket", *["sse", "poll"] * 5)
    ]
    assert before == [None, None, "websocket", *["sse", "poll"] * 4, "sse"]
    stream.cancel()
    line = answer_record(stream, _PRICES)
    assert (line.transport, line.transport_changes) == ("websocket", 10)
