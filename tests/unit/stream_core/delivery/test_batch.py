from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.delivery.batch import Batch
from evenflow.stream_core.log.response_log import ResponseLog


@given(st.lists(st.text(max_size=5)), st.integers(1, 12), st.data())
def test_batches_joined_are_the_tokens_joined_and_none_is_over_the_limit(
    tokens: list[str], max_tokens: int, data: st.DataObject
) -> None:
    batch = Batch(ResponseLog(), max_tokens)
    cut: list[str] = []
    waiting = 0
    for token in tokens:
        is_full = batch.add(token)
        waiting += 1
        assert is_full == (waiting >= max_tokens)
        if is_full or data.draw(st.booleans(), label="the window ends"):
            cut.append(batch.cut_text())
            waiting = 0
    cut.append(batch.cut_text())
    assert "".join(cut) == "".join(tokens)
    assert batch.cut_text() == ""


def test_an_empty_batch_makes_no_entry() -> None:
    log = ResponseLog()
    Batch(log, 8).cut()
    assert log.entries == []
