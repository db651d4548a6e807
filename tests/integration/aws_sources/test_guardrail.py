"""A guardrail of Bedrock that judges what any model says, by AWS's own protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from evenflow.fargate_handler.filters import guardrail_client
from evenflow.fargate_handler.filters.filtering_sink import FilterFailed
from evenflow.fargate_handler.filters.guardrail_client import GuardrailClient
from evenflow.fargate_handler.settings.model_values import Guardrail
from evenflow.stream_core.filtering.port import FilterAction, Filtering
from evenflow.stream_core.filtering.windows import LONGEST_OVERLAP, overlap_of
from evenflow.stream_core.log.entries import Content, Part, PartKind
from tests.integration.aws_models.model_server import ModelServer
from tests.integration.aws_models.reply import clears, intervenes, refuses
from tests.unit.fargate_handler.filters.filtered_answer import FilteredAnswer

_SENTENCE = "This sentence is one of some that a guardrail is given together. "


@pytest.fixture
async def judge(model: ModelServer) -> AsyncIterator[GuardrailClient]:
    """A client of the guardrail."""
    client = GuardrailClient(Guardrail("abc123", "2"), 10)
    yield client
    await client.close()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause before a retry."""
    monkeypatch.setattr(guardrail_client, "_PAUSE_SECONDS", (0.0, 0.0))


def answer_of(judge: GuardrailClient, mode: Filtering, **options: object) -> FilteredAnswer:
    """An answer that the guardrail judges."""
    return FilteredAnswer(mode, options={"guardrail": judge, **options})


def judged(model: ModelServer) -> list[str]:
    """The texts that the guardrail was given."""
    return [request["content"][0]["text"]["text"] for request in model.requests]


def _overlapping(windows: list[str]) -> str:
    """The text of windows of which each begins with the end of the one before."""
    text = windows[0]
    for window in windows[1:]:
        most = min(LONGEST_OVERLAP, len(window))
        shared = next(size for size in range(most, -1, -1) if text.endswith(window[:size]))
        assert shared > LONGEST_OVERLAP // 2
        text += window[shared:]
    return text


async def test_text_waits_for_its_verdict_in_windows_of_sentences(
    model: ModelServer, judge: GuardrailClient
) -> None:
    answer = answer_of(judge, Filtering.HOLD)
    answer.say(_SENTENCE)
    assert answer.text == ""
    await answer.all_of([_SENTENCE] * 29)
    assert answer.text == _SENTENCE * 30
    assert _overlapping(judged(model)) == answer.text
    assert 1 < len(model.requests) < 10
    assert (model.requests[0]["name"], model.requests[0]["source"]) == ("abc123", "OUTPUT")


async def test_what_it_replaces_stands_replaced_and_the_answer_goes_on(
    model: ModelServer, judge: GuardrailClient
) -> None:
    model.will(intervenes("It was {NAME}.", "ANONYMIZED"), clears())
    answer = answer_of(judge, Filtering.HOLD)
    thought = Part(PartKind.REASONING, "so", name="reasoning")
    told: list[Content] = ["It was Ann.", thought]
    finish = await answer.all_of(told)
    assert (answer.contents, finish.finish_reason) == (["It was {NAME}.", thought], "stop")


@pytest.mark.parametrize(
    ("action", "text"), [(FilterAction.REDACT, "Not here."), (FilterAction.STOP, "")]
)
async def test_what_it_blocks_ends_the_answer(
    model: ModelServer, judge: GuardrailClient, action: FilterAction, text: str
) -> None:
    model.will(intervenes("Not here.", "BLOCKED"))
    answer = answer_of(judge, Filtering.HOLD, action=action)
    finish = await answer.all_of(["It was Ann."])
    assert (answer.text, finish.finish_reason) == (text, "content_filter")


async def test_shown_text_is_taken_back_when_the_verdict_comes(
    model: ModelServer, judge: GuardrailClient
) -> None:
    shown = _SENTENCE * 4
    again = shown[-overlap_of(shown, shown) :]
    model.will(clears(), intervenes(f"{again}It was {{NAME}}.", "ANONYMIZED"))
    answer = answer_of(judge, Filtering.RETRACT)
    answer.say(shown, "It was Ann.")
    assert answer.text == f"{shown}It was Ann."
    await answer.all_of([])
    assert judged(model) == [shown, f"{again}It was Ann."]
    assert answer.text == f"{shown}It was {{NAME}}."
    assert [first for _, first in answer.stream.log.restarts] == [-1]


async def test_what_straddles_two_windows_is_replaced_whole(
    model: ModelServer, judge: GuardrailClient
) -> None:
    first = _SENTENCE * 3 + "It was Ann. "
    again = first[-overlap_of(first, first) :]
    told = (again + "Lee, of Bonn.").replace("Ann. Lee", "{NAME}")
    model.will(clears(), intervenes(told, "ANONYMIZED"))
    answer = answer_of(judge, Filtering.HOLD)
    await answer.all_of([first, "Lee, of Bonn."])
    assert answer.text == _SENTENCE * 3 + "It was {NAME}, of Bonn."


async def test_results_and_data_are_judged_too_and_a_source_stays_in_its_place(
    model: ModelServer, judge: GuardrailClient
) -> None:
    source = Part(PartKind.DATA, '{"title":"Ann"}', name="source")
    result = Part(PartKind.RESULT, "Ann", id="call_1", name="look")
    hidden = intervenes('{"title":"{NAME}"}', "ANONYMIZED")
    model.will(clears(), hidden, clears(), intervenes("{NAME}", "ANONYMIZED"))
    answer = answer_of(judge, Filtering.HOLD)
    said: list[Content] = [_SENTENCE * 4, source, "And on.", result]
    await answer.all_of(said)
    assert answer.contents == [
        _SENTENCE * 4,
        source.with_text('{"title":"{NAME}"}'),
        "And on.",
        result.with_text("{NAME}"),
    ]


async def test_a_call_that_fails_is_made_again(
    model: ModelServer, judge: GuardrailClient, at_once: None
) -> None:
    model.will(refuses(429, "ThrottlingException", "slow down"), clears())
    answer = answer_of(judge, Filtering.HOLD)
    await answer.all_of(["It was."])
    assert (answer.text, len(model.requests)) == ("It was.", 2)


async def test_without_a_verdict_nothing_is_shown_and_the_answer_ends_with_an_error(
    model: ModelServer, judge: GuardrailClient, at_once: None
) -> None:
    model.will(refuses(500, "InternalServerException", "sorry"))
    answer = answer_of(judge, Filtering.HOLD)
    with pytest.raises(FilterFailed):
        await answer.all_of(["It was."])
    assert (answer.text, len(model.requests)) == ("", 3)


async def test_a_model_that_is_far_ahead_of_the_verdicts_is_held(
    model: ModelServer, judge: GuardrailClient
) -> None:
    answer = answer_of(judge, Filtering.HOLD)
    answer.say(*[_SENTENCE] * 300)
    assert answer.filtered.sink.paused
    await answer.all_of([])
    assert not answer.filtered.sink.paused
    assert answer.text == _SENTENCE * 300
