"""What a model's server sends unasked is never the answer to another user's message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from evenflow.fargate_handler.token_sources.openai import OpenAIModel
from evenflow.stream_core.base.errors import UpstreamFailed
from tests.integration.raw_model import RawModel, ask, raw_model, streamed, whole

_STRAY = {
    "streamed": streamed("STRAY"),
    "whole": whole("STRAY"),
    "two": streamed("STRAY") + whole("STRAY"),
    "without a body": b"HTTP/1.1 204 No Content\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\n",
    "half a head": streamed("STRAY")[:30],
    "a head without its end": streamed("STRAY")[:50] + b"\r\n",
    "half a body": streamed("STRAY")[:-20],
    "a letter": b"x",
    "no HTTP": b"x\r\n\r\n",
}


@pytest.fixture
async def model() -> AsyncIterator[RawModel]:
    """The model's server."""
    async with raw_model() as serving:
        yield serving


@pytest.fixture
async def source(model: RawModel) -> AsyncIterator[OpenAIModel]:
    """Our side of it."""
    source = OpenAIModel(model.url, "m", "sk-of-the-tests")
    yield source
    await source.close()


@pytest.mark.timeout(10)
async def test_honest_answers_come_over_one_connection(
    source: OpenAIModel, model: RawModel
) -> None:
    for number in range(5):
        assert await ask(source, f"q{number}") == f"q{number}"
        for _ in range(number):
            await asyncio.sleep(0)
    assert model.connections == 1


@pytest.mark.timeout(10)
@pytest.mark.parametrize("answer", [streamed, whole])
@pytest.mark.parametrize("what", _STRAY)
async def test_with_the_end_of_an_answer(
    source: OpenAIModel, model: RawModel, what: str, answer: Callable[[str], bytes]
) -> None:
    model.answer = lambda question: answer(question) + _STRAY[what]
    try:
        assert await ask(source, "first") == "first"
    except UpstreamFailed:
        assert what in ("a letter", "no HTTP"), "it came with the answer's head, and is no HTTP"
    model.answer = answer
    assert await ask(source, "second") == "second"
    assert model.connections == 2


@pytest.mark.timeout(10)
@pytest.mark.parametrize("what", _STRAY)
async def test_while_the_connection_is_idle(
    source: OpenAIModel, model: RawModel, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await ask(source, "first") == "first"
    model.send(_STRAY[what])
    await model.left.wait()
    assert "nobody had asked for" in caplog.text
    assert await ask(source, "second") == "second"
    assert model.connections == 2


@pytest.mark.timeout(10)
@pytest.mark.parametrize("what", _STRAY)
async def test_just_as_the_next_request_goes_out(
    source: OpenAIModel, model: RawModel, what: str
) -> None:
    assert await ask(source, "first") == "first"
    model.send(_STRAY[what])  # it is in our socket, and the loop has not looked yet
    assert await ask(source, "second") == "second"
    assert model.connections == 2


@pytest.mark.timeout(10)
@pytest.mark.parametrize("what", _STRAY)
async def test_its_first_half_with_an_end_and_the_rest_later(
    source: OpenAIModel, model: RawModel, what: str
) -> None:
    half = len(_STRAY[what]) // 2
    model.answer = lambda question: streamed(question) + _STRAY[what][:half]
    try:
        assert await ask(source, "first") == "first"
    except UpstreamFailed:
        assert what == "no HTTP"
    model.answer = streamed
    model.send(_STRAY[what][half:])
    assert await ask(source, "second") == "second"
    assert model.connections == 2


@pytest.mark.timeout(10)
async def test_an_answer_before_the_question_was_sent(source: OpenAIModel, model: RawModel) -> None:
    model.reads_bodies = False
    model.answer = lambda _: streamed("STRAY")
    with pytest.raises(UpstreamFailed, match="before it had the question"):
        await ask(source, "long " * 4_000_000)
    model.reads_bodies = True
    model.answer = streamed
    assert await ask(source, "second") == "second"
    assert model.connections == 2
