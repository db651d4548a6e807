from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.log.entries import (
    LONGEST_ID,
    LONGEST_NAME,
    LONGEST_VALUE,
    MOST_CALLS,
    MOST_CHOICES,
    Content,
    NotAPart,
    Part,
    PartKind,
    Restart,
    behind,
    joined,
    joins,
    size_of,
)
from tests.unit.stream_core.log.contents import CONTENTS

_CALL = Part(PartKind.CALL, call=1, id="call_1", name="add")


def reasoning(text: str, name: str = "reasoning") -> Part:
    return Part(PartKind.REASONING, text, name=name)


@pytest.mark.parametrize(
    "entry",
    [
        Part(PartKind.TEXT, "a", choice=1, call=2, id="b", name="c"),
        Restart(4, attempt=2, epoch=3, withdraws=True),
    ],
)
def test_an_entry_is_pickled_for_the_process_that_writes(entry: Part | Restart) -> None:
    assert pickle.loads(pickle.dumps(entry)) == entry  # noqa: S301 - from ourselves


def test_neighbours_of_one_place_join() -> None:
    given: list[Content] = ["a", "b", reasoning("x"), reasoning("y"), "c"]
    assert list(joined(given)) == ["ab", reasoning("xy"), "c"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", reasoning("x")),
        (reasoning("x"), reasoning("x", "reasoning_content")),
        (Part(PartKind.REASONING, "x", id="{}"), Part(PartKind.REASONING, "x")),
        (Part(PartKind.ARGUMENTS, "{", call=0), Part(PartKind.ARGUMENTS, "{", call=1)),
        (Part(PartKind.TEXT, "a", choice=1), Part(PartKind.TEXT, "a", choice=2)),
        (Part(PartKind.CALL_END), Part(PartKind.CALL_END)),
        (Part(PartKind.DATA, "1", name="n"), Part(PartKind.DATA, "1", name="n")),
        (_CALL, _CALL),
        (Part(PartKind.RESULT, "1", id="a"), Part(PartKind.RESULT, "1", id="a")),
    ],
)
def test_nothing_else_joins(one: Content, other: Content) -> None:
    assert not joins(one, other)
    assert not joins(other, one)
    assert list(joined([one, other])) == [one, other]


@given(CONTENTS, st.data())
def test_the_joined_form_does_not_depend_on_how_an_answer_is_cut(
    contents: list[Content], data: st.DataObject
) -> None:
    whole = list(joined(contents))
    cut: list[Content] = []
    for content in whole:
        text = content if isinstance(content, str) else content.text
        if joins(content, content) and len(text) > 1:
            at = data.draw(st.integers(1, len(text) - 1))
            pieces = (text[:at], text[at:])
            cut += [
                piece if isinstance(content, str) else content.with_text(piece) for piece in pieces
            ]
        else:
            cut.append(content)
    assert list(joined(cut)) == whole


@given(CONTENTS, st.data())
def test_what_is_behind_a_prefix_completes_it(contents: list[Content], data: st.DataObject) -> None:
    until = data.draw(st.integers(0, len(contents)))
    has = list(joined(contents[:until]))
    rest = behind(joined(contents), has)
    assert list(joined([*has, *rest])) == list(joined(contents))


@given(CONTENTS)
def test_an_entry_counts_at_least_its_text(contents: list[Content]) -> None:
    for content in contents:
        text = content if isinstance(content, str) else content.text
        assert size_of(content) >= len(text.encode())


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        (Part(PartKind.TEXT, "a", choice=MOST_CHOICES), "out of range"),
        (Part(PartKind.TEXT, "a", choice=-1), "out of range"),
        (Part(PartKind.ARGUMENTS, "{", call=MOST_CALLS), "out of range"),
        (Part(PartKind.CALL, id="call_1"), "without a name"),
        (Part(PartKind.CALL, name="add"), "without a name"),
        (Part(PartKind.RESULT, "3"), "without the id"),
        (Part(PartKind.DATA, "1"), "without a name"),
        (Part(PartKind.CALL, id="i" * (LONGEST_ID + 1), name="add"), "too long"),
        (Part(PartKind.CALL, id="i", name="n" * (LONGEST_NAME + 1)), "too long"),
        (Part(PartKind.REASONING, "x", id="i" * (LONGEST_NAME + 1)), "too long"),
        (Part(PartKind.DATA, "1" * (LONGEST_VALUE + 1), name="n"), "too long"),
    ],
)
def test_a_part_that_is_not_allowed_is_refused(part: Part, wrong: str) -> None:
    with pytest.raises(NotAPart, match=wrong):
        part.check()


@given(CONTENTS)
def test_parts_of_answers_are_allowed(contents: list[Content]) -> None:
    for content in contents:
        if isinstance(content, Part):
            content.check()


def test_a_detail_counts_nothing_with_each_token_and_the_id_of_a_call_does() -> None:
    assert size_of(Part(PartKind.REASONING, "x", id="{" * 100)) == size_of(
        Part(PartKind.REASONING, "x")
    )
    assert size_of(Part(PartKind.CALL, id="i" * 100, name="f")) > 100
