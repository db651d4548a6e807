from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.token_sources.demo.passages import NO_PASSAGE, Passage, Passages
from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.fargate_handler.token_sources.demo.source import DemoModel
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest
from evenflow.stream_core.base.errors import ModelRefused, UpstreamFailed
from evenflow.stream_core.log.entries import Part, PartKind
from evenflow.stream_core.session.conversation import Turn
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle


class Sink:
    """Keeps the tokens and when they came, and the parts; after `most` it wants no more tokens."""

    def __init__(self, clock: HandTurnedClock, most: int = 1_000_000) -> None:
        self.tokens: list[str] = []
        self.parts: list[Part] = []
        self.at: list[float] = []
        self.paused = False
        self.pauses_with = -1
        self._clock = clock
        self._most = most

    def push(self, token: str) -> None:
        if len(self.tokens) >= self._most:
            raise EOFError("no more")
        self.tokens.append(token)
        self.paused = self.paused or len(self.tokens) == self.pauses_with
        self.at.append(self._clock.now)

    def push_part(self, part: Part) -> None:
        self.parts.append(part)

    def alive(self) -> None:
        raise AssertionError("the demo model is never silent and alive")


class Played:
    """One call of the demo model."""

    def __init__(
        self,
        question: str,
        *,
        attempt: int = 1,
        seed: int = 1,
        most: int = 1_000_000,
        prefix: str = "",
    ) -> None:
        self.clock = HandTurnedClock()
        self.sink = Sink(self.clock, most)
        passages = Passages([Passage("p", "Readers", "A slow reader is told that it lags.")])
        model = DemoModel(passages, self.clock.delivery, seed)
        request = ModelRequest("demo", (Turn("user", question),), attempt, prefix)
        self.began = self.clock.now
        self.task = asyncio.get_running_loop().create_task(model.generate(request, self.sink))

    async def play(self, seconds: float = 60.0) -> None:
        await settle()
        self.clock.turn(seconds)
        await settle()


async def test_the_directed_tokens_come_one_after_another_in_their_time() -> None:
    played = Played("#demo tokens=20 gap_ms=50 first_token_ms=100 seed=7")
    await played.play()
    assert played.sink.tokens == demo_tokens(7, 20)
    assert played.sink.at[0] - played.began == pytest.approx(0.1, abs=0.011)
    gaps = [
        after - before for before, after in zip(played.sink.at, played.sink.at[1:], strict=False)
    ]
    assert all(gap == pytest.approx(0.05, abs=0.001) for gap in gaps)
    finish = played.task.result()
    assert finish.finish_reason == "stop"
    assert finish.usage is not None
    assert finish.usage.completion_tokens == 20


async def test_a_gap_that_is_no_multiple_of_a_slot_is_right_on_average() -> None:
    played = Played("#demo tokens=1001 gap_ms=23 first_token_ms=0")
    await played.play()
    assert played.sink.at[-1] - played.sink.at[0] == pytest.approx(23.0, abs=0.02)


async def test_without_gaps_all_tokens_come_at_once() -> None:
    played = Played("#demo tokens=500 gap_ms=0 first_token_ms=0")
    await played.play(0.02)
    assert len(played.sink.tokens) == 500
    assert played.task.done()


async def test_no_tokens_at_all_is_an_end() -> None:
    played = Played("#demo tokens=0")
    await played.play(0.1)
    assert (played.sink.tokens, played.task.result().finish_reason) == ([], "stop")


async def test_a_question_is_answered_from_the_docs() -> None:
    played = Played("What is told to a slow reader?")
    await played.play()
    found = "*The demo model found this in docs/p.md, “Readers”.*"
    assert "".join(played.sink.tokens) == f"A slow reader is told that it lags.\n\n{found}"
    source = Part(PartKind.DATA, '{"title":"docs/p.md, “Readers”"}', name="source")
    assert played.sink.parts == [source]
    assert 0.25 <= played.sink.at[0] - played.began <= 0.62


async def test_a_question_about_something_else_is_answered_too() -> None:
    played = Played("流れ?")
    await played.play()
    assert ("".join(played.sink.tokens), played.sink.parts) == (NO_PASSAGE, [])


async def test_the_same_question_and_seed_have_the_same_timing_and_another_seed_has_another() -> (
    None
):
    runs = [Played("slow reader", seed=seed) for seed in (1, 1, 2)]
    for played in runs:
        await played.play()
    assert runs[0].sink.at == runs[1].sink.at
    assert runs[0].sink.at != runs[2].sink.at
    assert runs[0].sink.tokens == runs[2].sink.tokens


@pytest.mark.parametrize("number", [0, 3, 10])
async def test_it_fails_where_it_is_told_to(number: int) -> None:
    played = Played(f"#demo tokens=10 fail_after={number}")
    await played.play()
    assert isinstance(played.task.exception(), UpstreamFailed)
    assert played.sink.tokens == demo_tokens(1, 10)[:number]


async def test_a_later_attempt_does_not_fail_any_more() -> None:
    played = Played("#demo tokens=10 fail_after=3", attempt=2)
    await played.play()
    assert played.task.result().finish_reason == "stop"


async def test_it_hangs_where_it_is_told_to_until_it_is_cancelled() -> None:
    played = Played("#demo tokens=10 hang_after=4")
    await played.play(3600.0)
    assert not played.task.done()
    assert len(played.sink.tokens) == 4
    played.task.cancel()
    await settle()
    assert played.task.cancelled()


async def test_it_refuses_what_it_is_told_to_refuse() -> None:
    played = Played("#demo refuse=true")
    await played.play(0.1)
    assert isinstance(played.task.exception(), ModelRefused)


async def test_after_a_cancel_no_token_comes_any_more() -> None:
    played = Played("#demo tokens=100 gap_ms=50")
    await played.play(1.0)
    given_before = len(played.sink.tokens)
    assert 0 < given_before < 100
    played.task.cancel()
    await settle()
    await played.play(60.0)
    assert len(played.sink.tokens) == given_before
    assert played.task.cancelled()


async def test_while_paused_it_waits_and_then_goes_on_where_it_was() -> None:
    played = Played("#demo tokens=50 gap_ms=50")
    await played.play(1.0)
    played.sink.paused = True
    given_before = len(played.sink.tokens)
    await played.play(100.0)
    assert len(played.sink.tokens) == given_before
    played.sink.paused = False
    await played.play(0.2)
    assert given_before < len(played.sink.tokens) <= given_before + 5, (
        "nothing is made up for in a rush"
    )
    await played.play()
    assert played.sink.tokens == demo_tokens(1, 50)


async def test_a_pause_in_the_middle_of_a_rush_is_kept() -> None:
    played = Played("#demo tokens=50 gap_ms=0")
    played.sink.pauses_with = 20
    await played.play(10.0)
    assert len(played.sink.tokens) == 20
    played.sink.paused = False
    await played.play()
    assert played.sink.tokens == demo_tokens(1, 50)


async def test_a_sink_that_wants_no_more_ends_the_call_with_its_error() -> None:
    played = Played("#demo tokens=50", most=5)
    await played.play()
    assert isinstance(played.task.exception(), EOFError)
    assert len(played.sink.tokens) == 5


async def test_closing_releases_nothing_and_does_not_fail() -> None:
    await DemoModel(Passages([]), HandTurnedClock().delivery, 1).close()


async def test_a_finish_is_what_the_port_says() -> None:
    played = Played("#demo tokens=1")
    await played.play(1.0)
    assert isinstance(played.task.result(), ModelFinish)


@pytest.mark.parametrize(
    "question", ["#demo tokens=20 gap_ms=50 seed=7", "What happens to a slow reader?"]
)
async def test_it_goes_on_from_the_middle_of_an_answer(question: str) -> None:
    """In another task too: the same question has the same answer."""
    whole = Played(question)
    await whole.play()
    text = "".join(whole.sink.tokens)
    for given_already in (1, len(text) // 2, len(text)):
        rest = Played(question, attempt=2, prefix=text[:given_already])
        await rest.play()
        assert "".join(rest.sink.tokens) == text[given_already:]
        assert rest.task.result().finish_reason == "stop"


async def test_it_does_not_go_on_from_an_answer_that_is_not_its_own() -> None:
    played = Played("#demo tokens=20", prefix="Something else")
    await played.play()
    assert isinstance(played.task.exception(), UpstreamFailed)
    assert played.sink.tokens == []
