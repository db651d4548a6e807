from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest

from evenflow.stream_core.log.entries import Content, LogEntry, Part, PartKind, Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.outcome import MOST_BYTES, Outcome, contents_of

CALL = Part(PartKind.CALL, call=1, id="call_1", name="search")
ARGUMENTS = Part(PartKind.ARGUMENTS, '{"q":"Brahms"}', call=1)


@pytest.mark.parametrize(
    ("contents", "answer"),
    [
        ((), None),
        (("Hello",), "Hello"),
        (("Hello",), None),
        (("Let me see. ", CALL, ARGUMENTS, "Found."), "Let me see. Found."),
        ((Part(PartKind.REASONING, "hm", name="reasoning_content"),), None),
    ],
)
@pytest.mark.parametrize("state", [ResponseState.COMPLETED, ResponseState.CANCELLED])
def test_it_comes_back_as_it_was(
    contents: Sequence[Content], answer: str | None, state: ResponseState
) -> None:
    outcome = Outcome(state, tuple(contents), "stop", {"code": "upstream_failed"})
    assert Outcome.from_text(outcome.to_text(answer), answer) == outcome


def test_the_text_that_is_kept_as_the_answer_is_not_kept_twice() -> None:
    outcome = Outcome(ResponseState.COMPLETED, ("Hello",), "stop")
    assert orjson.loads(outcome.to_text("Hello")) == {"state": "completed", "finish_reason": "stop"}
    assert "Hello" in outcome.to_text(None)


def test_of_what_is_too_large_the_text_is_kept_and_of_a_text_that_is_too_large_nothing() -> None:
    long = Part(PartKind.REASONING, "x" * MOST_BYTES)
    for contents, kept in (
        (("a", long, "b"), ("ab",)),
        (("a" * MOST_BYTES, long), ()),
    ):
        text = Outcome(ResponseState.COMPLETED, contents).to_text(None)
        assert len(text.encode()) <= MOST_BYTES
        assert Outcome.from_text(text, None).contents == kept


def test_only_what_stands_is_said_joined() -> None:
    entries: list[LogEntry] = ["a", "b", Restart(-1, 2), "c", "d", CALL, "e", Restart(4, 3), "f"]
    assert contents_of(entries) == ("cdf",)
