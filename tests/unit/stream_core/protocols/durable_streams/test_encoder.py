"""A response as a stream of messages, in chunks and live."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import EventId
from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.log.response_log import NOTHING_YET, REPLACES_ALL, ResumePoint
from evenflow.stream_core.protocols.durable_streams import encoder as durable_streams
from evenflow.stream_core.protocols.durable_streams.encoder import StreamEvents, chunk_of, tail_of
from evenflow.stream_core.protocols.durable_streams.offsets import offset_of
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream

_BEGINNING = ResumePoint(0)


def response(*entries: str | Restart, ended: bool = False) -> ResponseStream:
    stream = new_stream(HandTurnedClock())
    stream.log.extend(entries)
    if ended:
        stream.complete("stop", None)
    return stream


def kinds(body: bytes) -> list[str]:
    return [frame["type"].rpartition(".")[2] for frame in orjson.loads(body)]


def test_each_entry_is_a_message_and_so_is_the_end() -> None:
    chunk = chunk_of(response("a", "b", ended=True), _BEGINNING)
    assert kinds(chunk.body) == ["delta", "delta", "completed"]
    assert chunk.has == EventId(1, 1, True)
    assert chunk.up_to_date
    assert chunk.lasts


def test_a_chunk_at_the_tail_of_an_open_response_may_grow() -> None:
    chunk = chunk_of(response("a"), _BEGINNING)
    assert (kinds(chunk.body), chunk.has) == (["delta"], EventId(0, 1))
    assert chunk.up_to_date
    assert not chunk.lasts


def test_where_there_is_nothing_there_is_an_empty_list() -> None:
    chunk = chunk_of(response(), _BEGINNING)
    assert (chunk.body, chunk.has) == (b"[]", EventId(NOTHING_YET, 1))


@pytest.mark.parametrize(("bound", "value"), [("MOST_MESSAGES", 2), ("MOST_BYTES", 150)])
def test_a_full_chunk_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(durable_streams, bound, value)
    stream = response("a", "b", "c")
    full = chunk_of(stream, _BEGINNING)
    assert (full.has, full.up_to_date, full.lasts) == (EventId(1, 1), False, True)
    stream.log.extend(["d"])
    assert chunk_of(stream, _BEGINNING) == full
    assert chunk_of(stream, ResumePoint(2)).has == EventId(3, 1)


def test_of_a_closed_response_a_full_chunk_does_not_say_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durable_streams, "MOST_MESSAGES", 1)
    stream = response("a", ended=True)
    first = chunk_of(stream, _BEGINNING)
    assert (first.has, first.up_to_date) == (EventId(0, 1), False)
    assert chunk_of(stream, ResumePoint(1)).has == EventId(0, 1, True)


def test_what_everything_replaces_comes_first_and_under_a_later_offset() -> None:
    stream = response("a", "b", Restart(1, 2, epoch=2), "c")
    chunk = chunk_of(stream, ResumePoint(0, Restart(REPLACES_ALL, 2, 2)))
    assert kinds(chunk.body) == ["restarted", "delta", "delta", "restarted", "delta"]
    assert offset_of(chunk.has) > offset_of(EventId(700, 1))


def test_the_tail_is_behind_everything() -> None:
    assert tail_of(response()) == EventId(NOTHING_YET, 1)
    assert tail_of(response("a", Restart(0, 2, epoch=3))) == EventId(1, 3)
    assert tail_of(response("a", ended=True)) == EventId(0, 1, True)


def events(data: bytes) -> list[tuple[str, Any]]:
    told = []
    for block in data.decode().split("\n\n")[:-1]:
        name, _, said = block.removeprefix("event: ").partition("\ndata:")
        told.append((name, orjson.loads(said)))
    return told


def test_who_has_everything_is_told_so_at_once() -> None:
    stream = response("a")
    encoder = StreamEvents(stream, ResumePoint(1), 100, "7")
    control = {"streamNextOffset": offset_of(EventId(0, 1)), "streamCursor": "7"}
    assert events(encoder.opening) == [("control", control | {"upToDate": True})]
    assert StreamEvents(stream, _BEGINNING, 100, "7").opening == b""


def test_each_message_is_followed_by_where_the_reader_is() -> None:
    stream = response("a", "b")
    encoder = StreamEvents(stream, _BEGINNING, 10_000, "7")
    (_, first), (_, between), _, (_, last) = events(encoder.take())
    assert isinstance(first, list)
    assert first[0]["delta"] == "a"
    assert between == {"streamNextOffset": offset_of(EventId(0, 1)), "streamCursor": "7"}
    assert last == {
        "streamNextOffset": offset_of(EventId(1, 1)),
        "streamCursor": "7",
        "upToDate": True,
    }


def test_the_end_has_no_cursor_since_nobody_comes_again() -> None:
    encoder = StreamEvents(response("a", ended=True), ResumePoint(1), 100, "7")
    _, (_, control) = events(encoder.take())
    assert control == {
        "streamNextOffset": offset_of(EventId(0, 1, True)),
        "streamClosed": True,
        "upToDate": True,
    }


def test_readers_are_given_the_same_bytes_of_a_delta() -> None:
    stream = response()
    encoders = [StreamEvents(stream, _BEGINNING, 100, "7") for _ in range(2)]
    stream.log.extend(["a"])
    assert encoders[0].take() == encoders[1].take()


def test_a_cursor_is_told_as_it_is() -> None:
    stream = response()
    encoder = StreamEvents(stream, _BEGINNING, 100, "7%d")
    stream.log.extend(["50%"])
    (_, (message,)), (_, control) = events(encoder.take())
    assert (message["delta"], control["streamCursor"]) == ("50%", "7%d")


def test_who_has_the_last_text_of_an_ended_response_is_not_at_its_end() -> None:
    stream = response("a", "b", ended=True)
    encoder = StreamEvents(stream, ResumePoint(1), 1, "7")
    _, (_, control) = events(encoder.take())
    assert control == {"streamNextOffset": offset_of(EventId(1, 1)), "streamCursor": "7"}
