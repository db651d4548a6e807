"""What the port of encoders promises, held against each implementation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.errors import EvenflowError, TooSlow, UpstreamFailed
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import EventId, LogEncoder
from evenflow.stream_core.log.entries import Content, LogEntry, Restart, joined
from evenflow.stream_core.log.response_log import ResumePoint, resume_point, slice_of
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream
from tests.unit.stream_core.log.contents import CONTENT
from tests.unit.stream_core.protocols.readers import KINDS, Client, FrameClient, Kind

each_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
_BEGINNING = ResumePoint(0)
_PIECES = st.text('ab\n"é', min_size=1, max_size=8)


def contents(kind: Kind) -> st.SearchStrategy[Content]:
    """What a model gives that the clients of this kind are given."""
    return _PIECES | CONTENT if kind.typed else _PIECES


@st.composite
def logs(draw: st.DrawFn, kind: Kind, restarts: bool = True) -> list[LogEntry]:
    """Entries of one owner; a restart keeps nothing or everything, since a client can't cut what
    was joined.
    """
    entries: list[LogEntry] = []
    given = st.none() | contents(kind) if restarts else contents(kind)
    for piece in draw(st.lists(given, max_size=12)):
        attempt = 2 + sum(isinstance(entry, Restart) for entry in entries)
        kept = st.sampled_from([-1, len(entries) - 1])
        entries.append(piece if piece is not None else Restart(draw(kept), attempt))
    return entries


def copy_with(*entries: LogEntry) -> ResponseStream:
    """A response of which so much has come."""
    stream = new_stream(HandTurnedClock())
    stream.log.extend(entries)
    return stream


def ended(stream: ResponseStream) -> ResponseStream:
    stream.complete("stop", None)
    return stream


def drain(encoder: LogEncoder, client: Client) -> None:
    """The client is sent all that there is; one that was told of a failure has left."""
    if client.failed:
        return
    try:
        while data := encoder.take():
            assert encoder.ended or not client.ends
            client.hear(data)
    except EvenflowError as error:
        client.failed = True
        client.hear(encoder.failure(error))


def come_back(kind: Kind, client: Client, stream: ResponseStream, point: ResumePoint) -> None:
    """The client is answered anew, from `point` on."""
    encoder = kind.encoder(stream, point)
    client.hear(encoder.opening)
    drain(encoder, client)


def check(kind: Kind, client: Client, stream: ResponseStream) -> None:
    """It has the answer, or was told why it can't have it."""
    if kind.appends and client.failed:
        assert stream.log.restarts, "only what was replaced can't be told"
        return
    assert (client.text, client.ends, client.failed) == (stream.log.text, 1, False)
    if isinstance(client, FrameClient):
        assert client.contents == [*joined(stream.log.read(0).current)]


@each_kind
@given(st.data())
def test_nothing_is_lost_wherever_the_log_is_cut(kind: Kind, data: st.DataObject) -> None:
    entries = data.draw(logs(kind))
    stream, client = copy_with(), kind.client()
    encoder = kind.encoder(stream, _BEGINNING)
    client.hear(encoder.opening)
    while stream.log.next_index < len(entries) and not client.failed:
        to = data.draw(st.integers(stream.log.next_index + 1, len(entries)))
        stream.log.extend(entries[stream.log.next_index : to])
        if data.draw(st.booleans()):
            drain(encoder, client)
            assert client.failed or encoder.cursor.after == stream.log.next_index - 1
    drain(encoder, client)
    assert not encoder.ended
    ended(stream)
    drain(encoder, client)
    check(kind, client, stream)


@each_kind
@given(st.data())
def test_what_is_taken_at_once_is_about_a_frame(kind: Kind, data: st.DataObject) -> None:
    """And what was taken is what the client knows that it has."""
    entries = data.draw(logs(kind, restarts=False))
    client, stream = kind.client(), ended(copy_with(*entries))
    encoder = kind.encoder(stream, _BEGINNING)
    for _ in range(data.draw(st.integers(0, len(entries)))):
        client.hear(encoder.take())
        if kind.ids:
            assert (client.last.last_index, client.last.epoch) == (
                encoder.cursor.after,
                encoder.epoch,
            )
        assert client.text == slice_of(entries[: encoder.cursor.after + 1], 0).text


@each_kind
@given(st.data())
def test_a_client_comes_back_by_what_it_was_told(kind: Kind, data: st.DataObject) -> None:
    entries = data.draw(logs(kind))
    stream, client = copy_with(*entries), kind.client()
    encoder = kind.encoder(stream, _BEGINNING)
    for _ in range(data.draw(st.integers(0, len(entries)))):
        client.hear(encoder.take())
    if not kind.ids:
        client.last = EventId(encoder.cursor.after, encoder.epoch)
    point = resume_point(stream.log, client.last.last_index, client.last.epoch)
    assert point is not None
    come_back(kind, client, ended(stream), point)
    check(kind, client, stream)


@each_kind
@given(st.data())
def test_it_goes_on_in_the_copy_of_the_next_owner(kind: Kind, data: st.DataObject) -> None:
    """What the lost owner delivered and did not get on record is replaced, or what goes on from
    there is the same.
    """
    recorded = data.draw(logs(kind, restarts=False))
    lost, anew = (data.draw(st.lists(contents(kind), max_size=4)) for _ in range(2))
    client, first = kind.client(), copy_with(*recorded, *lost)
    encoder = kind.encoder(first, _BEGINNING)
    for _ in range(data.draw(st.integers(0, len(recorded) + len(lost)))):
        client.hear(encoder.take())
    second = new_stream(HandTurnedClock())
    second.adopt_log(recorded, 2, None)
    second.log.extend(anew)
    point = resume_point(second.log, encoder.cursor.after, encoder.epoch)
    assert point is not None
    encoder.go_on(ended(second), point)
    drain(encoder, client)
    check(kind, client, second)
    if not client.failed:
        assert encoder.epoch == 2


@each_kind
@given(st.data())
def test_an_entry_is_told_alike_to_who_stayed_and_who_comes_back(
    kind: Kind, data: st.DataObject
) -> None:
    """At the log's head, entry by entry. A later owner goes on in the middle."""
    recorded, anew = (data.draw(st.lists(_PIECES | CONTENT, max_size=6)) for _ in range(2))
    stream = copy_with()
    stayed = kind.encoder(stream, _BEGINNING)
    taken_over = Restart(len(recorded) - 1, 2, epoch=2)
    for index, entry in enumerate([*recorded, taken_over, *anew]):
        back = kind.encoder(stream, ResumePoint(index))
        stream.log.extend([entry])
        assert back.take() == stayed.take()
        while told := stayed.take():
            assert back.take() == told


@each_kind
def test_the_end_is_told_once(kind: Kind) -> None:
    stream, client = ended(copy_with("a", "b")), kind.client()
    encoder = kind.encoder(stream, _BEGINNING)
    drain(encoder, client)
    assert (client.text, client.ends, encoder.ended) == ("ab", 1, True)
    assert encoder.take() == b""


@each_kind
def test_who_has_everything_but_the_end_is_told_the_end(kind: Kind) -> None:
    stream, client = ended(copy_with("a")), kind.client()
    client.last = client.last._replace(last_index=0)
    come_back(kind, client, stream, ResumePoint(1))
    assert (client.text, client.ends) == ("", 1)


@each_kind
def test_an_error_is_told_behind_the_text(kind: Kind) -> None:
    stream, client = copy_with("a"), kind.client()
    stream.fail(UpstreamFailed("it broke", code="upstream_failed").to_object())
    drain(kind.encoder(stream, _BEGINNING), client)
    assert (client.text, client.failed) == ("a", True)


@each_kind
def test_a_response_without_text_has_an_end(kind: Kind) -> None:
    stream, client = ended(copy_with()), kind.client()
    drain(kind.encoder(stream, _BEGINNING), client)
    assert (client.text, client.ends) == ("", 1)


@each_kind
def test_who_is_too_slow_is_told(kind: Kind) -> None:
    encoder = kind.encoder(copy_with("a", "b"), _BEGINNING)
    while encoder.take():
        pass
    told = encoder.failure(TooSlow("too slow", code="too_slow"))
    assert b'"too_slow"' in told
    if kind.name.startswith("events"):
        assert told.startswith(b"event: error\nid: 1\n"), "there an EventSource resumes"


@each_kind
def test_who_has_nothing_and_is_too_slow_is_told_no_place(kind: Kind) -> None:
    told = kind.encoder(copy_with("a"), _BEGINNING).failure(TooSlow("x", code="too_slow"))
    assert told
    assert b"id: " not in told
