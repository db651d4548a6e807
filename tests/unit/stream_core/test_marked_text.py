from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_core.log.marked_text import (
    ASIDES,
    LONGEST_MARK,
    LONGEST_RECORD,
    MOST_CALLS,
    MOST_CHOICES,
    AnswerPart,
    CallPart,
    MarkedTextWriter,
    NotMarked,
    has_marks,
)
from stream_core.log.marked_text_reader import MarkedTextReader

# Much of what marks are made of, so that content looks like marks.
TEXT = st.text(
    st.sampled_from(["\x1e", "\n", "{", "}", '"', "a", "ß", "\\"]) | st.characters(codec="utf-8"),
    max_size=8,
)
NAME = TEXT.filter(bool)
Said = tuple[int, int | str | None, str]
"""A choice, where it belongs there (`logprobs` too), and a text."""
PLACES = st.none() | st.integers(0, 3) | st.sampled_from([*ASIDES, "logprobs"])
SAID = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2]), PLACES, TEXT), max_size=12)
CUTS = st.lists(st.integers(0, 10_000), max_size=20)


class Heard:
    """What the parts of an answer add up to, as the clients do it."""

    def __init__(self) -> None:
        self.texts: dict[tuple[int, str | None], str] = {}
        self.calls: dict[tuple[int, int], list[str]] = {}
        self.logprobs: dict[int, list[str]] = {}
        self.begun: set[int] = {0}

    def take(self, parts: Sequence[AnswerPart]) -> None:
        assert len({part.choice for part in parts}) == len(parts), "each once"
        for part in parts:
            assert part.begins is (part.choice not in self.begun)
            self.begun.add(part.choice)
            for name, text in [(None, part.text), *part.asides.items()]:
                if text:
                    self.texts[part.choice, name] = self.texts.get((part.choice, name), "") + text
            if entries := part.logprobs.get("content"):
                self.logprobs.setdefault(part.choice, []).extend(entries)
            self._take_calls(part)

    def _take_calls(self, part: AnswerPart) -> None:
        assert len({call.index for call in part.calls}) == len(part.calls), "each once"
        for call in part.calls:
            if call.name:
                assert (part.choice, call.index) not in self.calls, "it begins once"
                self.calls[part.choice, call.index] = [call.id, call.name, ""]
            assert call.name or call.arguments, "nothing is no part"
            self.calls[part.choice, call.index][2] += call.arguments


def written(said: list[Said]) -> str:
    writer = MarkedTextWriter()
    return "".join(_written(writer, *one) for one in said)


def _written(writer: MarkedTextWriter, choice: int, place: int | str | None, text: str) -> str:
    if place is None:
        return writer.text(text, choice)
    if isinstance(place, int):
        return writer.call(place, text, f"c{place}", f"f\x1e\n{place}", choice)
    return (
        writer.logprobs({"content": [text], "refusal": None}, choice)
        if place == "logprobs"
        else writer.aside(place, text, choice)
    )


def expected(said: list[Said]) -> Heard:
    heard = Heard()
    for choice, place, text in said:
        if isinstance(place, int):
            heard.calls.setdefault((choice, place), [f"c{place}", f"f\x1e\n{place}", ""])[2] += text
        elif place == "logprobs":
            heard.logprobs.setdefault(choice, []).append(text)
        elif text:
            heard.texts[choice, place] = heard.texts.get((choice, place), "") + text
    heard.begun |= (
        {choice for choice, _ in heard.texts}
        | {choice for choice, _ in heard.calls}
        | heard.logprobs.keys()
    )
    return heard


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@given(SAID, CUTS)
def test_wherever_it_is_cut_it_is_read_as_it_was_written(said: list[Said], cuts: list[int]) -> None:
    reader, heard = MarkedTextReader(), Heard()
    for piece in pieces(written(said), cuts):
        heard.take(reader.read(piece))
    assert vars(heard) == vars(expected(said))


@given(SAID, st.integers(0, 10_000), CUTS)
def test_who_comes_back_goes_on_where_the_first_part_ended(
    said: list[Said], break_at: int, cuts: list[int]
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
def test_how_the_model_cut_its_answer_does_not_show(said: list[Said], cuts: list[int]) -> None:
    finer = [
        (choice, place, piece)
        for choice, place, text in said
        for piece in (pieces(text, cuts) if text and place != "logprobs" else [text])
    ]
    assert written(finer) == written(said)


@given(TEXT)
def test_an_answer_without_calls_is_its_text_but_for_marks_of_its_own(text: str) -> None:
    marked = MarkedTextWriter().text(text)
    assert (marked == text) is ("\x1e" not in text) is not has_marks(marked)
    assert MarkedTextReader().read(marked) == ((AnswerPart(text),) if text else ())


def test_what_it_looks_like() -> None:
    writer = MarkedTextWriter()
    said = (
        writer.text("So: ")
        + writer.call(0, '{"a":', "call_1", "add")
        + writer.call(0, "1}")
        + writer.text("Then")
    )
    assert said == 'So: \x1e{"call":0,"id":"call_1","name":"add"}\n{"a":1}\x1e{"call":null}\nThen'
    assert writer.text("\x1e") == '\x1e{"text":"\\u001e"}\n'
    assert MarkedTextReader().read(said) == (
        AnswerPart("So: Then", (CallPart(0, '{"a":1}', "call_1", "add"),)),
    )


def test_what_is_beside_the_answer_looks_like() -> None:
    writer = MarkedTextWriter()
    said = writer.aside("reasoning_content", "Hm") + writer.text("Yes")
    said += writer.logprobs({"content": [{"token": "Yes"}], "refusal": None})
    said += writer.text("No", 1) + writer.end("length", 1)
    assert said == (
        '\x1e{"to":"reasoning_content"}\nHm\x1e{"call":null}\n'
        'Yes\x1e{"logprobs":{"content":[{"token":"Yes"}]}}\n\x1e{"choice":1}\n'
        'No\x1e{"end":"length"}\n'
    )
    reader = MarkedTextReader()
    assert reader.read(said) == (
        AnswerPart(
            "Yes", asides={"reasoning_content": "Hm"}, logprobs={"content": [{"token": "Yes"}]}
        ),
        AnswerPart("No", choice=1, begins=True, end="length"),
    )
    assert reader.open_choices == (0,)


def test_a_choice_goes_on_where_it_was_left() -> None:
    writer = MarkedTextWriter()
    said = writer.aside("reasoning", "a", 1) + writer.text("b") + writer.aside("reasoning", "c", 1)
    assert (
        said == '\x1e{"choice":1}\n\x1e{"to":"reasoning"}\na\x1e{"choice":0}\nb\x1e{"choice":1}\nc'
    )


def test_a_part_is_nothing_while_a_mark_has_no_end() -> None:
    reader = MarkedTextReader()
    assert not reader.read('\x1e{"call":0,"id":"c","na')
    assert reader.read('me":"f"}\n') == (AnswerPart("", (CallPart(0, "", "c", "f"),)),)


@pytest.mark.parametrize(
    ("index", "call_id", "name"),
    [
        (0, "", "f"),
        (0, "c", ""),
        (-1, "c", "f"),
        (MOST_CALLS, "c", "f"),
        (0, "c", "f" * LONGEST_MARK),
    ],
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
    parts = [part for character in marked for part in reader.read(character)]
    assert parts == [AnswerPart("", (CallPart(0, "", "c", name),))]


def test_log_probabilities_may_be_longer_and_have_a_bound() -> None:
    head = len('\x1e{"logprobs":{"content":[""]}}\n')
    token = "x" * (LONGEST_RECORD - head)
    writer = MarkedTextWriter()
    (part,) = MarkedTextReader().read(writer.logprobs({"content": [token]}))
    assert part.logprobs == {"content": [token]}
    with pytest.raises(NotMarked):
        writer.logprobs({"content": ["x", token + "x"]})
    with pytest.raises(NotMarked):
        MarkedTextReader().read(f'\x1e{{"logprobs":{{"content":["{token}xxx"]}}}}\n')


@pytest.mark.parametrize("choice", [-1, MOST_CHOICES])
def test_there_are_so_many_choices(choice: int) -> None:
    writer = MarkedTextWriter()
    for write in (writer.text, lambda text, choice: writer.call(0, text, "c", "f", choice)):
        with pytest.raises(NotMarked):
            write("x", choice)
    assert writer.text("as before") == "as before"


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
        '{"to":"content"}',
        '{"to":7}',
        '{"choice":-1}',
        '{"choice":128}',
        '{"choice":"1"}',
        '{"end":"stop"}',
        '{"logprobs":{"content":7}}',
        '{"logprobs":[]}',
        '{"call":0,"id":"c","name":"f","type":"other"}',
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
            | st.dictionaries(
                st.sampled_from(
                    ["call", "id", "name", "text", "to", "choice", "logprobs", "end", "type"]
                ),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_any_json_is_read_or_refused(said: object) -> None:
    with contextlib.suppress(NotMarked):
        MarkedTextReader().read(f"\x1e{json.dumps(said)}\n")
