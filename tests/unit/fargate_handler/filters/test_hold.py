"""What isn't cleared isn't in the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from evenflow.fargate_handler.filters.filtering_sink import FilterFailed
from evenflow.stream_core.base.channel import COMPLETION
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.delivery.response_stream import ResponseFull
from evenflow.stream_core.filtering import cpu_budget
from evenflow.stream_core.filtering.port import FilterAction, Filtering, StopAnswer
from evenflow.stream_core.log.entries import (
    CALL_EXTRA,
    EXTRA,
    Content,
    Part,
    PartKind,
    joined,
    text_of,
)
from evenflow.stream_core.log.returned_fields import detail_of
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant import Tenant
from tests.unit.fargate_handler.filters.filtered_answer import SECRET, FilteredAnswer

THOUGHT = Part(PartKind.REASONING, name="reasoning")
ARGUMENTS = Part(PartKind.ARGUMENTS, call=0)
CALL = Part(PartKind.CALL, id="call_1", name="look")


@pytest.mark.parametrize("place", ["", THOUGHT, ARGUMENTS, Part(PartKind.TEXT, choice=1)])
async def test_a_secret_cut_anywhere_in_any_place_is_not_in_the_log(place: Content) -> None:
    for cut in range(len(SECRET)):
        answer = FilteredAnswer()
        pieces = ["It is ", SECRET[:cut], SECRET[cut:], " now"]
        told = [text if isinstance(place, str) else place.with_text(text) for text in pieces]
        await answer.all_of(told)
        assert SECRET not in answer.ever_shown
        whole = "It is [redacted] now"
        assert answer.contents == [whole if isinstance(place, str) else place.with_text(whole)]


async def test_places_that_alternate_do_not_mix() -> None:
    answer = FilteredAnswer()
    one, other = Part(PartKind.TEXT, choice=1), Part(PartKind.ARGUMENTS, call=2)
    told: list[Content] = []
    for sign in SECRET:
        told += [sign, one.with_text(sign), other.with_text(sign)]
    await answer.all_of(told)
    assert {str(content) for content in answer.contents} == {
        "[redacted]",
        str(one.with_text("[redacted]")),
        str(other.with_text("[redacted]")),
    }


async def test_what_follows_a_text_for_good_comes_behind_it() -> None:
    answer = FilteredAnswer()
    end = Part(PartKind.CALL_END)
    thought, text, arguments = (
        THOUGHT.with_text("hm, AK"),
        "see AKI",
        ARGUMENTS.with_text('{"a": s'),
    )
    told: list[Content] = [thought, text, CALL, arguments, end]
    await answer.all_of(told)
    assert answer.contents == told


async def test_results_and_data_are_filtered_whole_and_stay_json() -> None:
    answer = FilteredAnswer()
    result = Part(PartKind.RESULT, f"key {SECRET}", id="call_1", name="look")
    data = Part(PartKind.DATA, f'{{"key": "{SECRET}"}}', name="source")
    await answer.all_of([result, data])
    assert answer.contents == [
        result.with_text("key [redacted]"),
        data.with_text('{"key": "[redacted]"}'),
    ]


@pytest.mark.parametrize("mode", [Filtering.HOLD, Filtering.RETRACT])
async def test_log_probabilities_which_spell_the_text_again_are_left_out(mode: Filtering) -> None:
    answer = FilteredAnswer(mode)
    told: list[Content] = []
    for letter in SECRET:
        entry = f'{{"content":[{{"token":"{letter}","logprob":-0.1}}]}}'
        told += [Part(PartKind.DATA, entry, name="logprobs"), letter]
    await answer.all_of(told)
    assert answer.contents == ["[redacted]"]


async def test_fields_of_chunks_stop_no_answer() -> None:
    answer = FilteredAnswer()
    beside = Part(
        PartKind.DATA, f'{{"chunk":{{"system_fingerprint":"{SECRET}"}}}}', name="chunk_extra"
    )
    await answer.all_of(["a", beside])
    assert answer.contents == ["a"]


async def test_only_the_models_own_end_clears_what_is_held() -> None:
    ended, broken = FilteredAnswer(), FilteredAnswer()
    await ended.all_of(["so it is AKIA12"])
    assert ended.text == "so it is AKIA12"
    with pytest.raises(UpstreamFailed):
        await broken.all_of(["so it is AKIA12"], UpstreamFailed("broke", code="upstream_failed"))
    assert broken.text == "so it is "


async def test_a_continued_answer_begins_where_the_cleared_text_ends() -> None:
    answer = FilteredAnswer(standing=("It was shown: AKIA1234",))
    await answer.all_of(["567890123456", ", no"])
    assert answer.text == "It was shown: AKIA1234[redacted], no"


async def test_held_text_is_a_sign_of_life_and_its_time_is_measured() -> None:
    answer = FilteredAnswer()
    answer.say("so AKIA")
    answer.say("12")
    assert answer.stream.signs_of_life == 1
    answer.clock.turn(0.3)
    answer.say(", no")
    held = answer.metrics.distribution(catalogue.FILTER_HELD)
    assert (held.count, answer.text) == (1, "so AKIA12, no")


async def test_matches_are_counted_by_their_filter() -> None:
    answer = FilteredAnswer()
    await answer.all_of([SECRET, " and ", "ghp_" + "a" * 36])
    assert answer.metrics.labelled(catalogue.FILTER_MATCHES).value == 2


async def test_a_match_may_end_the_answer_behind_its_cleared_text() -> None:
    answer = FilteredAnswer(options={"action": FilterAction.STOP})
    finish = await answer.all_of(["It is ", SECRET[:10], SECRET[10:], " not told"])
    assert (finish.finish_reason, answer.text) == ("content_filter", "It is ")


async def test_a_filter_of_the_operators_own_comes_behind_the_patterns() -> None:
    class Loud:
        def __init__(self, before: str) -> None:
            self.before = before

        def push(self, text: str) -> str:
            if "quit" in text:
                raise StopAnswer("that is all")
            return text.upper()

        def finish(self) -> str:
            return f" ({len(self.before)})"

    answer = FilteredAnswer(options={"python": Loud}, standing=("Hi.",))
    await answer.all_of([f" {SECRET} it"])
    assert answer.text == "Hi. [REDACTED] IT (3)"
    stopped = FilteredAnswer(options={"python": Loud})
    finish = await stopped.all_of(["now ", "quit", "not told"])
    assert (finish.finish_reason, stopped.text) == ("content_filter", "NOW that is all")


async def test_a_filter_that_fails_ends_the_answer_with_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def __init__(self, before: str) -> None:
            """Nothing to begin with."""

        def push(self, text: str) -> str:
            raise KeyError(text)

        def finish(self) -> str:
            return ""

    answer = FilteredAnswer(options={"python": Broken})
    with pytest.raises(FilterFailed) as failed:
        await answer.all_of(["word"])
    assert (failed.value.code, answer.text) == ("filter_failed", "")
    assert "a content filter failed" in caplog.text


async def test_where_nothing_is_filtered_there_is_no_filter() -> None:
    assert FilteredAnswer(Filtering.OFF).attempt is None


async def test_a_tenants_record_comes_first() -> None:
    strict = Tenants(records=[Tenant(id="acme", filtering="hold")])
    free = Tenants(records=[Tenant(id="acme", filtering="off")])
    assert FilteredAnswer(Filtering.OFF, tenants=strict).attempt is not None
    assert FilteredAnswer(Filtering.HOLD, tenants=free).attempt is None


async def test_clients_that_take_nothing_back_are_shown_what_is_cleared() -> None:
    answer = FilteredAnswer(Filtering.RETRACT, kind=COMPLETION)
    await answer.all_of([SECRET[:10], SECRET[10:], "."])
    assert answer.stream.log.restarts == ()
    assert answer.text == "[redacted]."


def _detailed(text: str, index: int) -> Part:
    detail = detail_of("reasoning_details", {"type": "reasoning.text", "index": index}, "text")
    return replace(THOUGHT, text=text, id=detail)


def _fields(fields: dict[str, Any], name: str = EXTRA) -> Part:
    return Part(PartKind.DATA, orjson.dumps(fields).decode(), name=name)


@pytest.mark.parametrize("mode", [Filtering.HOLD, Filtering.RETRACT])
async def test_a_secret_is_found_across_details_and_across_fields(mode: Filtering) -> None:
    answer = FilteredAnswer(mode)
    told: list[Content] = []
    for place, sign in enumerate(SECRET):
        spelled = {"reasoning_text": sign, "reasoning_details": [{"text": sign, "index": place}]}
        told += [_detailed(sign, place % 3), _fields(spelled)]
    await answer.all_of(told)
    thoughts = [content for content in answer.contents if isinstance(content, Part)]
    assert (
        "".join(part.text for part in thoughts if part.kind is PartKind.REASONING) == "[redacted]"
    )
    kept = [part.text for part in thoughts if part.kind is PartKind.DATA]
    assert set("".join(kept)).isdisjoint("AKI")


@pytest.mark.parametrize("mode", [Filtering.HOLD, Filtering.RETRACT])
async def test_signatures_pass_and_end_no_text(mode: Filtering) -> None:
    answer = FilteredAnswer(mode)
    signed = _fields({"extra_content": {"google": {"thought_signature": "c2ln"}}})
    of_call = _fields({"extra_content": {"google": {"thought_signature": "c2ln"}}}, CALL_EXTRA)
    await answer.all_of([SECRET[:9], signed, SECRET[9:], of_call, CALL])
    told = [signed, "[redacted]", of_call, CALL]
    assert sorted(map(str, answer.contents)) == sorted(map(str, told))


async def test_a_secret_among_the_fields_is_found() -> None:
    answer = FilteredAnswer()
    await answer.all_of([_fields({"x": {"id": SECRET}}), "So."])
    assert SECRET not in answer.ever_shown
    assert answer.text == "So."


# -- what ends no text -----------------------------------------------------------------------------

_SOURCE = Part(PartKind.DATA, '{"url":"https://example.com"}', name="source")


@pytest.mark.parametrize("mode", [Filtering.HOLD, Filtering.RETRACT])
@pytest.mark.parametrize("place", ["", THOUGHT])
async def test_a_source_in_its_middle_does_not_hide_a_secret(
    mode: Filtering, place: Content
) -> None:
    for cut in range(1, len(SECRET)):
        answer = FilteredAnswer(mode)
        said: list[Content] = ["key ", SECRET[:cut], _SOURCE, SECRET[cut:], " end"]
        if isinstance(place, Part):
            said = [it if it == _SOURCE else place.with_text(text_of(it)) for it in said]
        await answer.all_of(said)
        told = "".join(text_of(it) for it in answer.contents if it != _SOURCE)
        assert told == "key [redacted] end"
        assert answer.contents.count(_SOURCE) == 1


async def test_a_source_stands_where_it_came_once_the_text_before_it_is_cleared() -> None:
    answer = FilteredAnswer()
    answer.say("so AKIA", _SOURCE)
    assert answer.contents == ["so "]
    answer.say("; no!", _SOURCE, " and on.")
    assert answer.contents == ["so AKIA", _SOURCE, "; no!", _SOURCE, " and on."]


async def test_a_source_behind_a_match_comes_behind_its_replacement() -> None:
    answer = FilteredAnswer()
    await answer.all_of([SECRET, _SOURCE, " and ", Part(PartKind.TEXT, "Q.", choice=1), _SOURCE])
    assert answer.contents == [
        "[redacted]",
        _SOURCE,
        " and ",
        Part(PartKind.TEXT, "Q.", choice=1),
        _SOURCE,
    ]


# -- a budget that is spent ------------------------------------------------------------------------


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first search spends the budget."""
    monkeypatch.setattr(cpu_budget, "_FIRST_SECONDS", -1.0)
    monkeypatch.setattr(cpu_budget, "_SECONDS_PER_CHARACTER", 0.0)


_SAID: list[Content] = [
    THOUGHT.with_text("hm "),
    THOUGHT.with_text(f"{SECRET} so"),
    "It is ",
    SECRET[:9],
    _SOURCE,
    SECRET[9:] + " now",
    CALL,
    ARGUMENTS.with_text('{"a": 1}'),
    Part(PartKind.CALL_END),
    Part(PartKind.RESULT, f"key {SECRET}", id="call_1", name="look"),
    "and " * 2_000,
]


@pytest.mark.usefixtures("nothing_left")
async def test_once_it_is_spent_all_is_held_and_filtered_when_the_model_has_ended() -> None:
    answer = FilteredAnswer()
    answer.say(*_SAID)
    assert answer.contents == [THOUGHT.with_text("hm ")], "what was cleared before"
    assert answer.stream.signs_of_life > 1
    await answer.all_of([])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_budget, "_FIRST_SECONDS", 1_000.0)
        patch.setattr(cpu_budget, "_MOST_SECONDS", 1_000.0)
        live = FilteredAnswer()
        await live.all_of(_SAID)
    assert _without_sources(answer) == _without_sources(live)
    assert answer.contents.count(_SOURCE) == 1
    assert SECRET not in answer.ever_shown
    assert answer.stream.tokens > 2_000, "about one for each token that was held"


def _without_sources(answer: FilteredAnswer) -> list[Content]:
    return list(joined(it for it in answer.contents if it != _SOURCE))


@pytest.mark.usefixtures("nothing_left")
async def test_a_match_in_what_was_held_may_end_the_answer() -> None:
    answer = FilteredAnswer(options={"action": FilterAction.STOP})
    finish = await answer.all_of(["It is ", "so: ", SECRET, " not told"])
    assert (finish.finish_reason, answer.text) == ("content_filter", "It is so: ")


@pytest.mark.usefixtures("nothing_left")
async def test_an_answer_of_which_too_much_is_held_ends_there() -> None:
    answer = FilteredAnswer()
    with pytest.raises(ResponseFull):
        answer.say(*["so and on " * 100] * 300)


@pytest.mark.usefixtures("nothing_left")
async def test_what_was_held_and_takes_too_long_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu_budget, "_LAST_SECONDS", -1.0)
    answer = FilteredAnswer()
    with pytest.raises(FilterFailed):
        await answer.all_of(["It is ", "so."])
    assert answer.text == "It is "
