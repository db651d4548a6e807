from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.delivery.paced_cursor import Batcher


@given(st.lists(st.text(max_size=5)), st.integers(1, 12), st.data())
def test_batches_joined_are_the_tokens_joined_and_none_is_over_the_limit(
    tokens: list[str], most: int, data: st.DataObject
) -> None:
    batcher = Batcher(most)
    cut: list[str] = []
    waiting = 0
    for token in tokens:
        full = batcher.add(token)
        waiting += 1
        assert full == (waiting >= most)
        if full or data.draw(st.booleans(), label="the window ends"):
            cut.append(batcher.cut())
            waiting = 0
    cut.append(batcher.cut())
    assert "".join(cut) == "".join(tokens)
    assert batcher.cut() == ""


def test_an_empty_batch_cuts_to_nothing() -> None:
    assert Batcher(3).cut() == ""
