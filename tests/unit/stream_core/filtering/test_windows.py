"""Windows of text for a judge of sentences."""

from __future__ import annotations

from evenflow.stream_core.filtering.windows import LONGEST_WINDOW, window_of

_SENTENCE = "It is so, as some say. "


def test_a_window_ends_with_a_sentence_once_there_is_enough() -> None:
    assert window_of(_SENTENCE, last=False) == 0
    text = _SENTENCE * 12 + "And then"
    assert text[: window_of(text, last=False)] == _SENTENCE * 12


def test_a_sentence_without_an_end_is_cut_at_a_space_or_anywhere() -> None:
    words, letters = "word " * 500, "x" * 5_000
    assert 0 < window_of(words, last=False) <= LONGEST_WINDOW
    assert words[: window_of(words, last=False)].endswith(" ")
    assert window_of(letters, last=False) == LONGEST_WINDOW


def test_the_last_window_is_what_is_left() -> None:
    assert window_of("And then", last=True) == 8
