"""A model's server that wants our memory, our time, or another user's secrets."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from evenflow.fargate_handler.token_sources import answer_body
from evenflow.fargate_handler.token_sources.openai import OpenAIModel
from evenflow.fargate_handler.token_sources.port import ModelRequest
from evenflow.stream_core.base.errors import (
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRejected,
)
from evenflow.stream_core.bounds.memory_bound import MODEL_READ_BYTES, READ_AHEAD_BYTES
from evenflow.stream_core.session.conversation import Turn
from tests.integration.raw_model import SSE_HEAD, RawModel, ask, raw_model, streamed
from tests.integration.scripted_model import chunk
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"


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


def _with_head(answer: bytes, line: bytes) -> bytes:
    return answer.replace(b"\r\n", b"\r\n%b\r\n" % line, 1)


@pytest.mark.timeout(10)
async def test_interim_answers_are_passed_over(source: OpenAIModel, model: RawModel) -> None:
    model.answer = lambda question: _CONTINUE + _HINTS + streamed(question)
    for question in ("first", "second"):
        assert await ask(source, question) == question
    assert model.connections == 1


_HEADS = {
    "interim answers without end": _CONTINUE * 400_000,
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"X-Y: z\r\n" * 1_000_000,
    "a line without end": b"HTTP/1.1 200 OK\r\nX-Y: " + b"z" * 10_000_000,
    "no HTTP": b"\r\n\r\n" * 2_000_000,
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + b"x" * 10**7,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", _HEADS)
async def test_what_comes_before_a_body_is_bounded(
    source: OpenAIModel, model: RawModel, what: str
) -> None:
    assert await ask(source, "before") == "before"
    model.answer = lambda _: _HEADS[what]
    tracemalloc.start()
    try:
        with pytest.raises(UpstreamFailed, match="the model's server sent"):
            await ask(source, "first")
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    model.answer = streamed
    assert await ask(source, "second") == "second"


@pytest.mark.timeout(10)
async def test_nothing_is_unpacked(
    source: OpenAIModel, model: RawModel, caplog: pytest.LogCaptureFixture
) -> None:
    bomb = gzip.compress(b"\0" * 100_000_000)
    model.answer = lambda _: (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
        % (len(bomb), bomb)
    )
    with pytest.raises(UpstreamRejected) as refused:
        await ask(source, "first")
    assert refused.value.code == "model_not_set_up"
    assert "compresses its answers (gzip)" in caplog.text
    assert b"accept-encoding: identity\r\n" in model.heads[0].lower()
    model.answer = lambda question: _with_head(streamed(question), b"Content-Encoding: identity")
    assert await ask(source, "second") == "second"


@pytest.mark.timeout(10)
async def test_a_compressed_error_page_is_its_status(source: OpenAIModel, model: RawModel) -> None:
    page = gzip.compress(b"<html>")
    model.answer = lambda _: (
        b"HTTP/1.1 503 Busy\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
        % (len(page), page)
    )
    with pytest.raises(UpstreamFailed) as failed:
        await ask(source, "first")
    assert (failed.value.status, failed.value.code) == (503, "upstream_overloaded")


@pytest.mark.timeout(10)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_told_to_the_operator_and_not_followed(
    source: OpenAIModel, model: RawModel, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    async with raw_model() as other:
        to = other.url.replace("http://", "http://user:pass@").encode()
        model.answer = lambda _: (
            b"HTTP/1.1 %d Moved\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (status, to)
        )
        with pytest.raises(UpstreamRejected) as refused:
            await ask(source, "first")
        assert refused.value.code == "model_not_set_up"
        assert other.connections == 0
        assert other.url not in refused.value.message
        assert f"answered {status} and points to {other.url.replace('//', '//…')}" in caplog.text
        assert "set EVENFLOW_MODEL_URL to where it is" in caplog.text


@pytest.mark.timeout(10)
async def test_a_cookie_for_one_user_does_not_come_with_the_next(model: RawModel) -> None:
    # aiohttp keeps cookies of names, not of addresses.
    source = OpenAIModel(model.url.replace("127.0.0.1", "localhost"), "m", None)
    model.answer = lambda question: _with_head(streamed(question), b"Set-Cookie: user=first")
    for question in ("first", "second"):
        assert await ask(source, question) == question
    await source.close()
    assert b"cookie" not in model.heads[1].lower()


@pytest.mark.timeout(20)
async def test_an_answer_is_bounded_even_if_it_says_nothing(
    source: OpenAIModel, model: RawModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_body, "_WIRE_BYTES_A_BYTE", 1)
    comments = b": \n\n" * 500_000
    model.answer = lambda question: (
        streamed(question)[:-5]
        + b"%x\r\n%b\r\n0\r\n\r\n"
        % (
            len(comments),
            comments,
        )
    )
    assert await ask(source, "first") == "first", "it has said that it is done"
    model.answer = lambda _: (
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(comments), comments)
    )
    with pytest.raises(UpstreamFailed, match="more than one answer may have"):
        await ask(source, "second")


@pytest.mark.timeout(20)
async def test_little_is_read_of_a_model_that_is_ahead_while_its_answer_is_held(
    model: RawModel, source: OpenAIModel
) -> None:
    """A thousand answers may be held at once."""
    sink = RecordingSink()
    sink.paused = True
    model.answer = lambda _: SSE_HEAD + b"\r\n" + chunk("first")
    asking = asyncio.create_task(
        source.generate(ModelRequest("demo", (Turn("user", "x"),), 1), sink)
    )
    while not sink.tokens:  # noqa: ASYNC110 - a few turns of the loop
        await asyncio.sleep(0)
    taken = await model.send_until_stalled(chunk("x" * 1_000), 10_000)
    # Half of it is the server's own kernel buffer.
    assert taken < 4 * (READ_AHEAD_BYTES + MODEL_READ_BYTES)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_an_error_with_the_status_200_has_the_headers_of_its_answer(
    source: OpenAIModel, model: RawModel
) -> None:
    body = b'{"error": {"code": "rate_limit_exceeded", "message": "Slow."}}'
    head = b"HTTP/1.1 200 OK\r\nRetry-After: 3\r\nContent-Length: %d\r\n\r\n" % len(body)
    model.answer = lambda _: head + body
    with pytest.raises(UpstreamAnswered) as throttled:
        await ask(source, "hi")
    assert (throttled.value.status, throttled.value.retry_after_ms) == (429, 3_000)
