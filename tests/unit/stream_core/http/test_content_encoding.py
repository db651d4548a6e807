"""The content of request bodies: whole, or refused, and never more of it than is allowed."""

from __future__ import annotations

import gzip
import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.http.content_encoding import (
    FREE_BYTES,
    GZIP,
    MOST_TIMES,
    ContentDecoder,
)

_MEGABYTE = 1_048_576
_MOST = 4 * _MEGABYTE


def _content(
    received: bytes, encoding: str | None = GZIP, most: int = _MOST, step: int = 65_536
) -> bytes:
    decoder = ContentDecoder(encoding, (GZIP,), most)
    parts = (received[at : at + step] for at in range(0, len(received), step))
    content = b"".join(piece for part in parts for piece in decoder.feed(part))
    decoder.end()
    return content


def _refusal(received: bytes, encoding: str | None = GZIP, most: int = _MOST) -> EvenflowError:
    with pytest.raises(EvenflowError) as refused:
        _content(received, encoding, most)
    return refused.value


@given(st.binary(max_size=3_000), st.integers(1, 200))
def test_content_comes_out_as_it_went_in_however_it_is_cut(content: bytes, step: int) -> None:
    assert _content(gzip.compress(content), step=step) == content
    assert _content(content, None, step=step) == content


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, _MEGABYTE])
def test_content_of_many_pieces_is_whole(size: int) -> None:
    content = random.Random(size).randbytes(size // 8) * 8
    assert _content(gzip.compress(content)) == content


@pytest.mark.parametrize("encoding", [None, "", "identity", " Identity "])
def test_without_an_encoding_it_stays_as_it_is(encoding: str | None) -> None:
    assert _content(b"{}", encoding) == b"{}"


@pytest.mark.parametrize("encoding", ["deflate", "br", "zstd", "gzip, gzip", "\udcff", "x" * 5_000])
def test_an_unknown_encoding_is_not_taken(encoding: str) -> None:
    error = _refusal(b"", encoding)
    assert (error.status, error.code, error.extra) == (
        415,
        "unsupported_encoding",
        {"expected": "gzip"},
    )


_WHOLE = gzip.compress(b'{"text": "hi"}', mtime=0)


@pytest.mark.parametrize(
    "received",
    [
        *(b"", b"{}", b"\x1f\x8b", _WHOLE[:-1], _WHOLE[4:], _WHOLE + b"x", _WHOLE * 2),
        _WHOLE[:-8] + bytes(8),
        _WHOLE[:12] + b"\xff" * 20,
    ],
)
def test_what_is_not_gzip_is_refused(received: bytes) -> None:
    error = _refusal(received)
    assert (error.status, error.code) == (400, "bad_request")


@pytest.mark.parametrize("encoding", [None, GZIP])
def test_more_than_is_allowed_is_too_large(encoding: str | None) -> None:
    content = random.Random(1).randbytes(10_001)
    error = _refusal(gzip.compress(content) if encoding else content, encoding, most=10_000)
    assert (error.status, error.code) == (413, "message_too_large")


def test_a_little_that_grows_large_is_refused_before_it_has() -> None:
    bomb = gzip.compress(bytes(64 * _MEGABYTE))
    assert len(bomb) * MOST_TIMES > _MOST, "the size alone would be the bound of all of it"
    tracemalloc.start()
    try:
        assert _refusal(bomb[: len(bomb) // 8]).code == "message_too_large"
        assert _refusal(bomb).code == "message_too_large"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * _MOST + _MEGABYTE


def test_a_few_words_many_times_over_are_content_like_any_other() -> None:
    assert len(_content(gzip.compress(b"ha" * (FREE_BYTES // 2)))) == FREE_BYTES
    assert "100 times" in _refusal(gzip.compress(b"ha" * FREE_BYTES)).message
