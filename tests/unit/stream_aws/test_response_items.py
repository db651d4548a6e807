from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_aws.response_items import (
    chunk_item,
    head_item,
    is_chunk,
    is_head,
    read_chunk,
    read_head,
)
from evenflow.stream_core.log.entries import LogEntry, Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.response_store import Chunk, Ending, ResponseHead
from evenflow.stream_core.stores.stored_json import ending_text

NOW = 1_800_000_000.0
HEAD = ResponseHead("r", "t:a:s", "m", "task", 1, NOW, NOW + 86_400)

ENTRIES: st.SearchStrategy[list[LogEntry]] = st.lists(
    st.one_of(
        st.text(st.characters(codec="utf-8"), max_size=5),
        st.builds(Restart, st.integers(-1, 99), st.integers(1, 9), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=6,
)


@given(ENTRIES, st.integers(1, 9_999), st.integers(0, 1_000_000))
def test_a_chunk_comes_back_as_it_was(
    entries: list[LogEntry], epoch: int, first_index: int
) -> None:
    chunk = Chunk("r", epoch, first_index, entries, NOW + 0.125)
    item = chunk_item(chunk)
    assert is_chunk(item)
    assert not is_head(item)
    assert read_chunk(item) == chunk


def test_markers_are_written_as_those_read_them_who_know_no_epochs() -> None:
    item = chunk_item(Chunk("r", 1, 0, ["a", Restart(-1, 2), Restart(0, 3, 2)], NOW))
    assert orjson.loads(item["entries"]["S"]) == [NOW, ["a", [-1, 2], [0, 3, 2]]]


def test_a_marker_without_an_epoch_is_read() -> None:
    item = chunk_item(Chunk("r", 1, 0, ["", ""], NOW))
    item["entries"] = {"S": '[1.5,["a",[-1,2]]]'}
    assert read_chunk(item) == Chunk("r", 1, 0, ["a", Restart(-1, 2)], 1.5)


def test_a_head_is_in_the_index_of_its_owner_while_it_has_no_ending() -> None:
    item = head_item(HEAD)
    assert item["running"] == {"S": "task"}
    assert is_head(item)
    assert not is_chunk(item)


@pytest.mark.parametrize(
    "ending", [None, Ending(ResponseState.ERROR, 3, NOW + 0.5, error={"code": "x"}, degraded=True)]
)
def test_a_head_comes_back_as_it_was(ending: Ending | None) -> None:
    item = head_item(replace(HEAD, starts={1: 0, 2: 17}))
    if ending is not None:
        item["ending"] = {"S": ending_text(ending)}
    assert read_head(item) == replace(HEAD, starts={1: 0, 2: 17}, ending=ending)
