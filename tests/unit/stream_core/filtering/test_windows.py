"""Windows of text for a judge of sentences."""

from __future__ import annotations

from evenflow.stream_core.filtering.windows import LONGEST_WINDOW, overlap_of, window_of

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


def test_what_is_shorter_than_the_overlap_is_within_one_window_wherever_it_stands() -> None:
    looked_for = "Jane Doe of 12 Long Street, Springfield"
    words = "so it is said " * 200
    for place in range(0, 2_400, 7):
        text, kept, windows = f"{words[:place]}{looked_for}{words[place:]}", "", list[str]()
        while text:
            size = window_of(text, last=True)
            windows.append(kept + text[:size])
            text = text[size:]
            kept = windows[-1][len(windows[-1]) - overlap_of(windows[-1], windows[-1]) :]
        assert any(looked_for in window for window in windows), place


def test_what_was_replaced_is_not_judged_again() -> None:
    text = "x " * 300 + "It was Ann. And so on"
    judged = text.replace("Ann", "{NAME}")
    assert judged[-overlap_of(text, judged) :] == "And so on"
    assert overlap_of("It was Ann", "It was {NAME}") == 0
    assert overlap_of("short", "short") == 5
    assert overlap_of("", "") == 0
