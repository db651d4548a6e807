"""Contents of answers, for property tests."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from evenflow.stream_core.log.entries import Content, Kind, Part

TEXTS = st.text("aé😀 \n", min_size=1, max_size=6)


def _delta(kind: Kind, name: str = "") -> st.SearchStrategy[Part]:
    return TEXTS.map(lambda text: Part(kind, text, name=name))


def _of_call(number: int) -> Sequence[Part]:
    return (
        Part(Kind.CALL, call=number, id=f"call_{number}", name="add"),
        Part(Kind.ARGUMENTS, '{"a"', call=number),
        Part(Kind.ARGUMENTS, ":1}", call=number),
        Part(Kind.CALL_END, call=number),
    )


CONTENT: st.SearchStrategy[Content] = st.one_of(
    TEXTS,
    TEXTS,
    _delta(Kind.REASONING, "reasoning_content"),
    _delta(Kind.REASONING, "reasoning"),
    _delta(Kind.REFUSAL),
    TEXTS.map(lambda text: Part(Kind.TEXT, text, choice=1)),
    st.integers(0, 2).flatmap(lambda number: st.sampled_from(_of_call(number))),
    st.just(Part(Kind.RESULT, "3", id="call_0", name="add")),
    st.sampled_from(('{"url":"https://example.org/"}', "null")).map(
        lambda value: Part(Kind.DATA, value, name="source")
    ),
)
"""One content. It may make no sense after the one before: logs hold what a model gives."""

CONTENTS = st.lists(CONTENT, max_size=20)
