"""Text is shown at once, and taken back where a filter would have changed it."""

from __future__ import annotations

import pytest

from evenflow.stream_core.filtering import cpu_budget
from evenflow.stream_core.filtering.port import FilterAction, Filtering
from evenflow.stream_core.log.entries import Part, PartKind
from tests.unit.fargate_handler.filters.filtered_answer import SECRET, FilteredAnswer

THOUGHT = Part(PartKind.REASONING, "hm", name="reasoning")


def retracted(**options: object) -> FilteredAnswer:
    """An answer whose text is shown at once."""
    return FilteredAnswer(Filtering.RETRACT, options=dict(options))


async def test_text_is_shown_at_once_and_nothing_is_taken_back_without_a_match() -> None:
    answer = retracted()
    answer.say("It is AKIA12")
    assert answer.text == "It is AKIA12"
    await answer.all_of(["; no"])
    assert (answer.text, answer.stream.log.restarts) == ("It is AKIA12; no", ())


@pytest.mark.parametrize("cut", range(0, len(SECRET), 3))
async def test_a_match_takes_the_text_back_and_the_cleared_text_follows(cut: int) -> None:
    answer = retracted()
    answer.say("It is ", SECRET[:cut], SECRET[cut:], ".")
    assert answer.text.rstrip(".") in ("It is ", "It is [redacted]")
    await answer.all_of([" And AKIA", "1 on"])
    assert answer.text == "It is [redacted]. And AKIA1 on"
    assert [first for _, first in answer.stream.log.restarts] == [-1]


async def test_once_text_was_taken_back_only_cleared_text_is_shown() -> None:
    answer = retracted()
    answer.say(SECRET, " and ")
    before = len(answer.stream.log.entries)
    await answer.all_of([SECRET[:8], SECRET[8:], "."])
    assert SECRET[:8] not in "".join(map(str, answer.stream.log.entries[before:]))
    assert answer.text == "[redacted] and [redacted]."
    assert len(answer.stream.log.restarts) == 1


async def test_other_places_stand_again_as_they_were() -> None:
    answer = retracted()
    thought = Part(PartKind.REASONING, "hm", name="reasoning")
    call = Part(PartKind.CALL, id="call_1", name="look")
    await answer.all_of([thought, "so ", call, f"it is {SECRET}."])
    assert answer.contents == [thought, "so ", call, "it is [redacted]."]


async def test_a_match_that_ends_the_answer_takes_back_what_is_behind_it() -> None:
    answer = retracted(action=FilterAction.STOP)
    finish = await answer.all_of(["It is ", SECRET, "."])
    assert (finish.finish_reason, answer.text) == ("content_filter", "It is ")


async def test_a_later_change_by_an_own_filter_is_noticed_too() -> None:
    class Late:
        def __init__(self, before: str) -> None:
            self.text = before

        def push(self, text: str) -> str:
            self.text += text
            return ""

        def finish(self) -> str:
            return self.text.replace("blue", "red")

    answer = retracted(python=Late)
    answer.say("the blue")
    assert answer.text == "the blue"
    await answer.all_of([" sky"])
    assert answer.text == "the red sky"


async def test_what_an_earlier_owner_showed_unchecked_is_checked_by_the_next_one() -> None:
    answer = FilteredAnswer(Filtering.RETRACT, standing=("It is AKIA12345",))
    await answer.all_of(["67890123456", "."])
    assert answer.text == "It is [redacted]."
    assert [first for _, first in answer.stream.log.restarts] == [-1]


# -- who comes later -------------------------------------------------------------------------------


def test_what_was_taken_back_is_not_in_the_log_any_more() -> None:
    answer = retracted()
    answer.say("It is ", SECRET[:10], THOUGHT, SECRET[10:], ".")
    log = answer.stream.log
    assert [first for _, first in log.restarts] == [-1]
    assert not any(SECRET[at : at + 3] in answer.ever_shown for at in range(0, len(SECRET), 3))
    assert answer.text.startswith("It is [redacted]")
    assert log.withdrawals == 1


def test_a_failed_attempt_that_showed_unchecked_text_is_withdrawn_too() -> None:
    answer = retracted()
    answer.say("It is AKIA12345")
    answer.stream.next_attempt()
    answer.stream.restart()
    assert "AKIA" not in answer.ever_shown


async def test_once_the_budget_is_spent_what_is_unchecked_is_taken_back_and_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu_budget, "_FIRST_SECONDS", -1.0)
    monkeypatch.setattr(cpu_budget, "_SECONDS_PER_CHARACTER", 0.0)
    answer = retracted()
    answer.say("It is AKIA12", "34567890123456", ".")
    assert answer.text == "It is "
    await answer.all_of([" And on"])
    assert answer.text == "It is [redacted]. And on"
    assert SECRET[:8] not in answer.ever_shown
