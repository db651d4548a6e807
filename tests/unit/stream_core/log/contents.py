"""Contents of answers, for property tests."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from evenflow.stream_core.log.entries import CALL_EXTRA, EXTRA, Content, Part, PartKind
from evenflow.stream_core.log.returned_fields import detail_of

TEXTS = st.text("aé😀 \n", min_size=1, max_size=6)


def _delta(kind: PartKind, name: str = "") -> st.SearchStrategy[Part]:
    return TEXTS.map(lambda text: Part(kind, text, name=name))


_DETAIL = detail_of("reasoning_details", {"type": "reasoning.text", "index": 0}, "text")


def _of_call(number: int) -> Sequence[Part]:
    return (
        Part(PartKind.DATA, '{"extra_content":{"signature":"s"}}', call=number, name=CALL_EXTRA),
        Part(PartKind.CALL, call=number, id=f"call_{number}", name="add"),
        Part(PartKind.ARGUMENTS, '{"a"', call=number),
        Part(PartKind.ARGUMENTS, ":1}", call=number),
        Part(PartKind.CALL_END, call=number),
    )


CONTENT: st.SearchStrategy[Content] = st.one_of(
    TEXTS,
    TEXTS,
    _delta(PartKind.REASONING, "reasoning_content"),
    _delta(PartKind.REASONING, "reasoning"),
    _delta(PartKind.REFUSAL),
    TEXTS.map(lambda text: Part(PartKind.REASONING, text, id=_DETAIL, name="reasoning")),
    st.sampled_from(
        (
            '{"reasoning_details":[{"type":"reasoning.text","index":0,"signature":"s"}]}',
            '{"extra_content":{"signature":"s"}}',
        )
    ).map(lambda value: Part(PartKind.DATA, value, name=EXTRA)),
    TEXTS.map(lambda text: Part(PartKind.TEXT, text, choice=1)),
    st.integers(0, 2).flatmap(lambda number: st.sampled_from(_of_call(number))),
    st.just(Part(PartKind.RESULT, "3", id="call_0", name="add")),
    st.sampled_from(('{"url":"https://example.org/"}', "null")).map(
        lambda value: Part(PartKind.DATA, value, name="source")
    ),
)
"""One content. It may make no sense after the one before: logs hold what a model gives."""

CONTENTS = st.lists(CONTENT, max_size=20)
