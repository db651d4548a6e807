from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.token_sources.stream_decoders import SseDecoder
from evenflow.stream_core.base.errors import UpstreamFailed

MIB = 1_048_576
DATA = st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), max_size=8)
EVENTS = st.lists(st.lists(DATA, min_size=1, max_size=3), max_size=6)


def decoded(*chunks: bytes) -> list[bytes]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def split(whole: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(whole) + 1) for cut in cuts), len(whole)]
    return [whole[start:end] for start, end in itertools.pairwise(edges)]


@given(
    EVENTS,
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["", "\ufeff"]),
    st.lists(st.integers(0, 10_000), max_size=12),
    st.booleans(),
)
def test_however_the_bytes_are_split_the_events_are_the_same(
    events: list[list[str]], newline: str, mark: str, cuts: list[int], extras: bool
) -> None:
    text = mark
    for lines in events:
        if extras:
            text += f": a comment{newline}event: delta{newline}id: 5{newline}retry: 10{newline}"
        # A leading space belongs to the field's name; one more is data.
        text += "".join(f"data: {line}{newline}" for line in lines) + newline
    expected = ["\n".join(lines).encode() for lines in events]
    assert decoded(*split(text.encode(), cuts)) == expected


def test_bytes_one_by_one_are_the_same_events() -> None:
    whole = b": hi\r\n\r\ndata: a\r\ndata: b\r\n\r\ndata: [DONE]\r\n\r\n"
    assert decoded(*(bytes([byte]) for byte in whole)) == [b"a\nb", b"[DONE]"]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: x\n\n", [b"x"]),
        (b"data:x\n\n", [b"x"]),
        (b"data:  x \n\n", [b" x "]),
        (b"data:\n\n", [b""]),
        (b"data: a: b\n\n", [b"a: b"]),
        (b"data: x\ndata: y\n\n", [b"x\ny"]),
        (b"data: x\nevent: e\ndata: y\n\n", [b"x\ny"]),
        (b":\n\n\n\n: keep-alive\n\n", []),
        (b"event: ping\n\ndata: x\n\n", [b"x"]),
        (b"database: x\n\n", []),
        (b"\n\ndata: x\n\n\n\ndata: y\n\n", [b"x", b"y"]),
        (b"\xef\xbb\xbfdata: x\n\n", [b"x"]),
        (b"data: x\n\n\xef\xbb\xbfdata: y\n\n", [b"x"]),
        (b"data: x\r\rdata: y\r\r", [b"x", b"y"]),
        (b"data: x\r\rdata: y\n\n", [b"x", b"y"]),
        (b"data: x\r\n\rdata: y\n\r\n", [b"x", b"y"]),
        (b"data: never ended", []),
        (b"data: never ended\n", []),
        (b"", []),
    ],
)
def test_what_makes_an_event(stream: bytes, events: list[bytes]) -> None:
    assert decoded(stream) == events


def test_a_line_without_end_is_refused() -> None:
    with pytest.raises(UpstreamFailed):
        decoded(*[b"x" * 65_536] * 30)


def test_an_event_without_end_is_refused_even_when_its_lines_end() -> None:
    with pytest.raises(UpstreamFailed):
        decoded(*[b"data: " + b"x" * 65_536 + b"\n"] * 30)


def test_a_large_event_below_the_limit_is_taken_and_the_next_one_begins_anew() -> None:
    event = b"data: " + b"x" * (MIB - 100)
    decoder = SseDecoder()
    for _ in range(3):
        assert decoder.feed(event) == []
        assert decoder.feed(b"\n\n") == [b"x" * (MIB - 100)]


@given(st.integers(0, 5), st.lists(st.integers(0, 10_000), max_size=12))
def test_comments_are_counted_however_the_bytes_are_split(comments: int, cuts: list[int]) -> None:
    decoder = SseDecoder()
    for chunk in split(b": keep-alive\n\n" * comments + b"data: x: y\n\n", cuts):
        decoder.feed(chunk)
    assert decoder.comments == comments
