from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.token_sources.stream_decoders import JsonLinesDecoder
from evenflow.stream_core.base.errors import UpstreamFailed

LINES = st.lists(
    st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"]), max_size=8)
)


@given(LINES, st.lists(st.integers(0, 10_000), max_size=12))
def test_however_the_bytes_are_split_the_lines_are_the_same(
    lines: list[str], cuts: list[int]
) -> None:
    whole = "".join(f"{line}\n" for line in lines).encode()
    edges = [0, *sorted(cut % (len(whole) + 1) for cut in cuts), len(whole)]
    decoder = JsonLinesDecoder()
    got = [
        line for start, end in itertools.pairwise(edges) for line in decoder.feed(whole[start:end])
    ]
    assert got == [line.encode() for line in lines if line.encode().strip()]


def test_a_line_without_end_is_refused() -> None:
    decoder = JsonLinesDecoder()
    for _ in range(16):
        assert decoder.feed(b"x" * 65_536) == []
    with pytest.raises(UpstreamFailed):
        decoder.feed(b"x")
