from __future__ import annotations

import contextlib
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_core.marked_text import (
    LONGEST_MARK,
    MOST_CALLS,
    AnswerPart,
    CallPart,
    MarkedTextReader,
    MarkedTextWriter,
    NotMarked,
    has_calls,
)

# Much of what marks are made of, so that content looks like marks.
TEXT = st.text(
    st.sampled_from(["\x1e", "\n", "{", "}", '"', "a", "ß", "\\"]) | st.characters(codec="utf-8"), max_size=8
)
NAME = TEXT.filter(bool)
SAID = st.lists(st.tuples(st.none() | st.integers(0, 3), TEXT), max_size=12)
CUTS = st.lists(st.integers(0, 10_000), max_size=20)


class Heard:
    """What the parts of an answer add up to, as the clients do it."""

    def __init__(self) -> None:
        self.text = ""
        self.calls: dict[int, list[str]] = {}

    def take(self, part: AnswerPart) -> None:
        self.text += part.text
        assert len({call.index for call in part.calls}) == len(part.calls), "each once"
        for call in part.calls:
            if call.name:
                assert call.index not in self.calls, "it begins once"
                self.calls[call.index] = [call.id, call.name, ""]
            assert call.name or call.arguments, "nothing is no part"
            self.calls[call.index][2] += call.arguments


def written(said: list[tuple[int | None, str]]) -> str:
    writer = MarkedTextWriter()
    return "".join(
        writer.text(text) if index is None else writer.call(index, text, f"c{index}", f"f\x1e\n{index}")
        for index, text in said
    )


def expected(said: list[tuple[int | None, str]]) -> Heard:
    heard = Heard()
    for index, text in said:
        if index is None:
            heard.text += text
        else:
            heard.calls.setdefault(index, [f"c{index}", f"f\x1e\n{index}", ""])[2] += text
    return heard


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@given(SAID, CUTS)
def test_wherever_it_is_cut_it_is_read_as_it_was_written(said: list[tuple[int | None, str]], cuts: list[int]) -> None:
    reader, heard = MarkedTextReader(), Heard()
    for piece in pieces(written(said), cuts):
        heard.take(reader.read(piece))
    assert vars(heard) == vars(expected(said))


@given(SAID, st.integers(0, 10_000), CUTS)
def test_who_comes_back_goes_on_where_the_first_part_ended(
    said: list[tuple[int | None, str]], break_at: int, cuts: list[int]
) -> None:
    text = written(said)
    place = break_at % (len(text) + 1)
    heard = Heard()
    heard.take(MarkedTextReader().read(text[:place]))
    again = MarkedTextReader()
    again.read(text[:place])
    for piece in pieces(text[place:], cuts):
        heard.take(again.read(piece))
    assert vars(heard) == vars(expected(said))


@given(SAID, CUTS)
def test_how_the_model_cut_its_answer_does_not_show(said: list[tuple[int | None, str]], cuts: list[int]) -> None:
    finer = [(index, piece) for index, text in said for piece in (pieces(text, cuts) if text else [text])]
    assert written(finer) == written(said)


@given(TEXT)
def test_an_answer_without_calls_is_its_text_but_for_marks_of_its_own(text: str) -> None:
    marked = MarkedTextWriter().text(text)
    assert (marked == text) is ("\x1e" not in text) is not has_calls(marked)
    assert MarkedTextReader().read(marked) == AnswerPart(text)


def test_what_it_looks_like() -> None:
    writer = MarkedTextWriter()
    said = writer.text("So: ") + writer.call(0, '{"a":', "call_1", "add") + writer.call(0, "1}") + writer.text("Then")
    assert said == 'So: \x1e{"call":0,"id":"call_1","name":"add"}\n{"a":1}\x1e{"call":null}\nThen'
    assert writer.text("\x1e") == '\x1e{"text":"\\u001e"}\n'
    assert MarkedTextReader().read(said) == AnswerPart("So: Then", (CallPart(0, '{"a":1}', "call_1", "add"),))


def test_a_part_is_nothing_while_a_mark_has_no_end() -> None:
    reader = MarkedTextReader()
    assert not reader.read('\x1e{"call":0,"id":"c","na')
    assert reader.read('me":"f"}\n') == AnswerPart("", (CallPart(0, "", "c", "f"),))


@pytest.mark.parametrize(
    ("index", "call_id", "name"),
    [(0, "", "f"), (0, "c", ""), (-1, "c", "f"), (MOST_CALLS, "c", "f"), (0, "c", "f" * LONGEST_MARK)],
)
def test_what_is_no_beginning_of_a_call_is_not_written(index: int, call_id: str, name: str) -> None:
    writer = MarkedTextWriter()
    with pytest.raises(NotMarked):
        writer.call(index, "{}", call_id, name)
    assert writer.text("as before") == "as before"


def test_the_longest_mark_is_read() -> None:
    head = len('\x1e{"call":0,"id":"c","name":""}\n')
    name = "f" * (LONGEST_MARK - head)
    marked = MarkedTextWriter().call(0, "", "c", name)
    assert len(marked) == LONGEST_MARK
    reader = MarkedTextReader()
    parts = [reader.read(character) for character in marked]
    assert [part for part in parts if part] == [AnswerPart("", (CallPart(0, "", "c", name),))]


@pytest.mark.parametrize(
    "mark",
    [
        "{",
        "7",
        "null",
        '"call"',
        "{}",
        '{"call":"0"}',
        '{"call":0}',
        '{"call":128,"id":"c","name":"f"}',
        '{"call":-1,"id":"c","name":"f"}',
        '{"call":0,"name":"f"}',
        '{"call":[0],"id":"c","name":"f"}',
        '{"text":7}',
        "",
    ],
)
def test_what_is_no_mark_is_told(mark: str) -> None:
    with pytest.raises(NotMarked):
        MarkedTextReader().read(f"text\x1e{mark}\n")


def test_a_call_begins_once() -> None:
    begins = '\x1e{"call":0,"id":"c","name":"f"}\n'
    with pytest.raises(NotMarked):
        MarkedTextReader().read(begins + begins)


def test_a_mark_without_an_end_is_not_waited_for() -> None:
    reader = MarkedTextReader()
    reader.read("\x1e")
    for _ in range(LONGEST_MARK):
        reader.read("x")
    with pytest.raises(NotMarked):
        reader.read("x")
    with pytest.raises(NotMarked):
        MarkedTextReader().read('\x1e{"call":0\x1e{"call":0}\n')


@given(st.text(st.sampled_from(["\x1e", "\n"]) | st.characters(codec="utf-8")), CUTS)
def test_any_text_is_read_or_refused(text: str, cuts: list[int]) -> None:
    reader = MarkedTextReader()
    try:
        for piece in pieces(text, cuts):
            reader.read(piece)
    except NotMarked:
        assert "\x1e" in text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["call", "id", "name", "text"]), inner, max_size=4)
        ),
    )
)
def test_any_json_is_read_or_refused(said: object) -> None:
    with contextlib.suppress(NotMarked):
        MarkedTextReader().read(f"\x1e{json.dumps(said)}\n")
