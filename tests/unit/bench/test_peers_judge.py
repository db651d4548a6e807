"""The comparison's judge: what came is read right, and each kind of fault is seen."""

from __future__ import annotations

import orjson
import pytest

from bench.event_streams import Event, ProtocolError, events, http_body
from bench.peers.judge import (
    Tally,
    Text,
    Token,
    chat_texts,
    delays,
    evenflow_texts,
    jitters,
    judged,
    socket_io_texts,
    tokens,
)

_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def _token(number: int, sent: int = 0) -> str:
    return f"{number:06d}{sent:09d} "


def _texts(*numbers: int, ends: bool = True) -> list[Text]:
    answer = [Text(0.0, _token(number)) for number in numbers]
    return [*answer, Text(0.0, "", ends=True)] if ends else answer


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _data(content: str) -> bytes:
    return orjson.dumps({"choices": [{"index": 0, "delta": {"content": content}}]})


def _faults(tally: Tally) -> dict[str, int]:
    kinds = ("gaps", "duplicates", "wrong", "unfinished")
    return {kind: value for kind in kinds if (value := getattr(tally, kind))}


@pytest.mark.parametrize(
    ("texts", "faults"),
    [
        (_texts(5, 6, 7), {}),
        (_texts(5, 7), {"gaps": 1}),
        (_texts(6, 7), {"gaps": 1}),
        (_texts(5, 6), {"gaps": 1}),
        (_texts(5, 6, 6, 7), {"duplicates": 1}),
        (_texts(5, 6, 7, 5, 6, 7), {"duplicates": 3}),
        (_texts(5, 7, 6), {"gaps": 1, "duplicates": 1}),
        (_texts(5, 6, 7, 8), {"wrong": 1}),
        (_texts(4, 5, 6, 7), {"wrong": 1}),
        (_texts(5, 6, 7, ends=False), {"unfinished": 1}),
        ([Text(0.0, "nonsense of 16 b"), *_texts(5, 6, 7)], {"wrong": 1, "gaps": 3}),
        ([*_texts(5, 6, 7), Text(0.0, "x")], {"wrong": 1}),
        ([], {"unfinished": 1}),
    ],
)
def test_each_kind_of_fault_is_seen(texts: list[Text], faults: dict[str, int]) -> None:
    assert _faults(judged(texts, 5, 3, must_finish=True)) == faults


def test_an_answer_that_was_cut_may_end_early_even_within_a_token() -> None:
    cut = [*_texts(5, 6, ends=False), Text(0.0, _token(7)[:9])]
    assert _faults(judged(cut, 5, 300, must_finish=False)) == {}
    wrong = [*_texts(5, ends=False), Text(0.0, "x" * 16)]
    assert _faults(judged(wrong, 5, 300, must_finish=False)) == {"wrong": 1}


def test_numbers_go_on_at_zero() -> None:
    assert _faults(judged(_texts(999_999, 0, 1), 999_999, 3, must_finish=True)) == {}


def test_tallies_add_up() -> None:
    one = judged(_texts(5, 7), 5, 3, must_finish=True)
    both = one + judged(_texts(5, 6, 7, ends=False), 5, 3, must_finish=True)
    assert (both.answers, both.tokens, both.faults) == (2, 5, 2)


def test_a_token_has_come_when_its_last_byte_has() -> None:
    joined = _token(1, 10) + _token(2, 20)
    pieces = [Text(1.0, joined[:20]), Text(2.0, joined[20:])]
    assert list(tokens(pieces)) == [Token(1, 10, 1.0), Token(2, 20, 2.0)]


def test_latency_and_jitter_within_a_stretch_of_time() -> None:
    answer = [Token(0, 0, 0.5), Token(1, 999_000, 1.0), Token(2, 1_030_000, 1.034)]
    assert delays(answer, 0.9, 2.0) == [1.0, 4.0]
    assert jitters(answer, 0.9, 2.0) == [3.0]
    assert Token(0, 999_999_000, 0.001).added_ms == 2.0  # the clock of the token begins again


def test_a_chunked_body_is_read_across_pieces() -> None:
    raw = _HEAD + _chunk(b"data: a\n\n") + _chunk(b"data: b\n\n") + b"0\r\n\r\n"
    for size in range(1, len(raw)):
        pieces = [(float(at), raw[at : at + size]) for at in range(0, len(raw), size)]
        body = http_body(pieces)
        assert b"".join(data for _, data in body) == b"data: a\n\ndata: b\n\n"
        ends = [raw.index(b"a\n\n") + 2, raw.index(b"b\n\n") + 2]
        assert [at for at, _ in body] == [float(end // size * size) for end in ends]


def test_what_came_of_a_chunk_that_was_cut_counts() -> None:
    raw = _HEAD + _chunk(b"data: a\n\n") + _chunk(b"data: b\n\n")[:6]
    assert b"".join(data for _, data in http_body([(0.0, raw)])) == b"data: a\n\ndat"


def test_a_body_that_is_not_chunked() -> None:
    raw = [(0.0, b"HTTP/1.1 200 OK\r\n\r"), (1.0, b"\ndata: a\n"), (2.0, b"\n")]
    assert http_body(raw) == [(1.0, b"data: a\n"), (2.0, b"\n")]


def test_an_error_is_no_answer() -> None:
    assert http_body([(0.0, b"HTTP/1.1 200 OK\r\n")]) == []
    with pytest.raises(ProtocolError, match="503 Busy"):
        http_body([(0.0, b"HTTP/1.1 503 Busy\r\n\r\nlater")])
    with pytest.raises(ProtocolError, match="broken"):
        list(chat_texts([Event(0.0, b'{"error":"broken"}')]))
    with pytest.raises(ProtocolError, match="queue_full"):
        list(evenflow_texts([(0.0, b'{"type":"system.busy","error":{"code":"queue_full"}}')]))


def test_events_are_read_as_browsers_read_them() -> None:
    body = [
        (1.0, b": comment\n\nid: 7\nda"),
        (2.0, b"ta: one\r\ndata: two\r\n\r\nevent: control\ndata:{}\n\ndata: not whole"),
    ]
    assert list(events(body)) == [
        Event(2.0, b"one\ntwo", "message", "7"),
        Event(2.0, b"{}", "control", None),
    ]


def test_a_blank_line_across_pieces_ends_an_event() -> None:
    body = [(1.0, b"data: a\r\n\r"), (2.0, b"\ndata: b\n"), (3.0, b"\n")]
    assert list(events(body)) == [Event(2.0, b"a"), Event(3.0, b"b")]


def test_chunks_alone_and_as_a_list() -> None:
    stream = [
        Event(1.0, _data("a")),
        Event(2.0, b"[" + _data("b") + b"," + _data("c") + b"]", "data"),
        Event(2.5, b'{"choices":[],"usage":{}}'),
        Event(3.0, b'{"streamNextOffset":"7"}', "control"),
        Event(4.0, b'{"streamClosed":true}', "control"),
        Event(5.0, b"[DONE]"),
    ]
    assert [(text.arrived, text.text) for text in chat_texts(stream) if text.text] == [
        (1.0, "a"),
        (2.0, "b"),
        (2.0, "c"),
    ]
    assert [text.arrived for text in chat_texts(stream) if text.ends] == [4.0, 5.0]


def test_frames_of_socket_io() -> None:
    frames = [
        (0.0, b'0{"sid":"x"}'),
        (1.0, b"2"),
        (2.0, b"42" + orjson.dumps(["token", _data("a").decode(), "offset"])),
        (3.0, b'42["token","[DONE]","offset"]'),
    ]
    assert list(socket_io_texts(frames)) == [Text(2.0, "a"), Text(3.0, "", ends=True)]


def test_frames_of_evenflow() -> None:
    frames = [
        (0.0, b'{"type":"chat.response.start"}'),
        (1.0, b'{"type":"chat.response.delta","delta":"a","index":0}'),
        (2.0, b'{"type":"chat.response.completed","finish_reason":"stop"}'),
        (3.0, b'{"type":"chat.response.completed","finish_reason":"cancelled"}'),
    ]
    assert list(evenflow_texts(frames)) == [
        Text(1.0, "a"),
        Text(2.0, "", ends=True),
        Text(3.0, "", ends=False),
    ]
