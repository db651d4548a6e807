"""What a client sees when the model fails, hangs or refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Answer
from tests.integration.chat_client import COMPACT, V1, ChatSession, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.event_stream import read_answer
from tests.integration.local_server import LocalServer
from tests.integration.scripted_model import END, Reply, ScriptedModel, chunk, scripted_model

_FALLBACK = "The model is away."

pytestmark = pytest.mark.usefixtures("hurry")
# The deadline is never reached but where a test is about it, however busy the machine is.
_SHORT: dict[str, Any] = {
    "model_first_sign_seconds": 0.4,
    "model_silence_seconds": 0.4,
    "model_deadline_seconds": 600,
}


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    """A server with short deadlines and a fallback answer."""
    return await serve(fallback_text=_FALLBACK, **_SHORT)


@pytest.fixture
async def strict_server(serve: Serve) -> LocalServer:
    """The same without a fallback."""
    return await serve(**_SHORT)


async def _over(transport: str, session: ChatSession, text: str) -> Answer:
    """The answer to `text` as this transport gives it."""
    if transport in (V1, COMPACT):
        async with session.connect(transport) as connection:
            return await connection.ask("m1", None, text)
    answer = Answer()
    response_id = (await session.post("m1", None, text)).json["response_id"]
    async with session.events(response_id) as stream:
        await read_answer(stream, answer)
    return answer


_TRANSPORTS = pytest.mark.parametrize("transport", [V1, COMPACT, "sse"])


@_TRANSPORTS
async def test_a_failure_before_the_first_token_is_not_seen(
    opened: OpenSession, server: LocalServer, transport: str
) -> None:
    retries = await server.metric("generations_retries_total")
    session = await opened(server)
    answer = await _over(transport, session, demo(tokens=20, gap_ms=5, seed=51, fail_after=0))
    assert answer.text == "".join(demo_tokens(51, 20))
    assert answer.restarts == []
    assert answer.finish_reason == "stop"
    assert answer.end is not None
    assert answer.end["degraded"] is False
    assert await server.metric("generations_retries_total") == retries + 1


@_TRANSPORTS
@pytest.mark.parametrize("fail_after", [1, 5, 19])
async def test_a_failure_in_the_middle_is_not_seen_where_the_model_goes_on(
    opened: OpenSession, server: LocalServer, transport: str, fail_after: int
) -> None:
    session = await opened(server)
    answer = await _over(
        transport, session, demo(tokens=20, gap_ms=10, seed=52, fail_after=fail_after)
    )
    assert answer.restarts == []
    assert answer.text == "".join(demo_tokens(52, 20))
    assert answer.finish_reason == "stop"


@pytest.fixture
async def forgetful(hurry: asyncio.Task[None]) -> AsyncIterator[ScriptedModel]:
    """A model server that doesn't go on from the middle of an answer.

    It gives half of one, and then a whole other one.
    """
    hurry.cancel()
    async with scripted_model() as serving:
        half = Reply([chunk("half "), chunk("an "), chunk("answer")], gap=0.4, then="break")
        serving.will(half, Reply([chunk("a "), chunk("whole "), chunk("one"), END], gap=0.1))
        yield serving


async def _serve_forgetful(serve: Serve, forgetful: ScriptedModel) -> LocalServer:
    return await serve(model="openai", model_url=forgetful.url, model_repeatable=True)


@_TRANSPORTS
async def test_a_failure_in_the_middle_restarts_the_text_where_it_does_not(
    opened: OpenSession, serve: Serve, forgetful: ScriptedModel, transport: str
) -> None:
    session = await opened(await _serve_forgetful(serve, forgetful))
    answer = await _over(transport, session, "a question")
    assert [(restart["from_index"], restart["attempt"]) for restart in answer.restarts] == [(-1, 2)]
    assert (answer.text, answer.finish_reason) == ("a whole one", "stop")
    response_id = answer.frames[-1]["response_id"]
    assert (await session.poll(response_id)).json["full_text"] == answer.text
    late = Answer()
    async with session.events(response_id) as stream:
        await read_answer(stream, late)
    assert late.text == answer.text


async def test_a_restart_between_two_polls(
    opened: OpenSession, serve: Serve, forgetful: ScriptedModel
) -> None:
    session = await opened(await _serve_forgetful(serve, forgetful))
    response_id = (await session.post("m1", None, "a question")).json["response_id"]
    last, text, _ = await session.poll_whole(response_id)
    assert last["metadata"]["restarted"] == {"from_index": -1, "attempt": 2}
    assert text == last["full_text"] == "a whole one"
    assert (await session.poll(response_id)).json["new_text"] == text


async def test_failing_before_any_text_ends_in_the_fallback(
    opened: OpenSession, server: LocalServer
) -> None:
    degraded = await server.metric("generations_degraded_total")
    session = await opened(server)
    text = demo(tokens=20, gap_ms=5, seed=54, fail_after=0, fail_attempts=9)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, text)
        assert answer.text == _FALLBACK
        assert answer.finish_reason == "stop"
        assert answer.end is not None
        assert answer.end["degraded"] is True
        polled = (await session.poll(answer.end["response_id"])).json
        assert (polled["status"], polled["full_text"]) == ("completed", _FALLBACK)
        assert polled["metadata"]["degraded"] is True
        assert await server.metric("generations_degraded_total") == degraded + 1
        # The conversation goes on.
        assert (await connection.ask("m2", "m1", demo(tokens=3, gap_ms=1))).finish_reason == "stop"


@_TRANSPORTS
@pytest.mark.parametrize("fallback", [True, False])
async def test_a_model_that_dies_behind_text_leaves_the_text_and_the_error(
    opened: OpenSession,
    server: LocalServer,
    strict_server: LocalServer,
    transport: str,
    fallback: bool,
) -> None:
    strict_server = server if fallback else strict_server
    session = await opened(strict_server)
    answer = await _over(
        transport, session, demo(tokens=20, gap_ms=5, seed=55, fail_after=5, fail_attempts=9)
    )
    assert answer.end is not None
    assert answer.end["type"] == "chat.response.error"
    assert answer.end["message_id"] == "m1"
    assert answer.text == "".join(demo_tokens(55, 5))
    error = checked_error(answer.end)
    assert (error["type"], error["code"]) == ("upstream_error", "upstream_failed")
    polled = (await session.poll(answer.end["response_id"])).json
    assert polled["status"] == "error"
    assert polled["full_text"] == answer.text
    assert checked_error(polled["metadata"]) == error
    assert await strict_server.metric("generations_running") == 0


@pytest.mark.parametrize("directives", [{"hang_after": 0}, {"hang_after": 4, "gap_ms": 10}])
async def test_a_silent_model_is_asked_again_and_then_given_up(
    opened: OpenSession, strict_server: LocalServer, directives: dict[str, object]
) -> None:
    session = await opened(strict_server)
    retries = await strict_server.metric("generations_retries_total")
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, demo(seed=56, **directives))
        assert answer.end is not None
        error = checked_error(answer.end)
        # Asked to go on behind four tokens, it gives none.
        assert (error["type"], error["code"]) == ("upstream_error", "first_token_timeout")
    assert await strict_server.metric("generations_retries_total") == retries + 1
    assert await strict_server.metric("generations_running") == 0


async def test_at_the_last_deadline_the_text_stays_cut_short(
    opened: OpenSession, serve: Serve
) -> None:
    session = await opened(await serve(**{**_SHORT, "model_deadline_seconds": 5}))
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, demo(seed=56, tokens=5000, gap_ms=10))
    assert (answer.finish_reason, answer.restarts) == ("length", [])
    assert len(answer.text) > 100
    assert "".join(demo_tokens(56, 5000)).startswith(answer.text)


async def test_a_hanging_model_ends_in_the_fallback(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, demo(hang_after=0))
        assert answer.text == _FALLBACK
        assert answer.restarts == []


async def test_a_refusal_is_final(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    retries = await server.metric("generations_retries_total")
    async with session.connect() as connection:
        for number, text in enumerate(
            (demo(refuse=1), demo(nonsense=1), demo(tokens=-1), "#demo tokens")
        ):
            answer = await connection.ask(f"m{number}", f"m{number - 1}" if number else None, text)
            assert answer.end is not None
            error = checked_error(answer.end)
            assert (error["type"], error["code"]) == ("model_refusal_error", "model_refused"), text
            assert "\n" not in error["message"], "a message for people has one line"
            polled = (await session.poll(answer.end["response_id"])).json
            assert (polled["status"], polled["metadata"]["error"]["code"]) == (
                "error",
                "model_refused",
            )
    assert await server.metric("generations_retries_total") == retries


async def test_a_full_response_ends_with_length(opened: OpenSession, serve: Serve) -> None:
    server = await serve(response_bytes=1024)
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, demo(tokens=2000, gap_ms=1, seed=57))
    assert answer.finish_reason == "length"
    assert 1024 <= len(answer.text.encode()) < 1400
    assert "".join(demo_tokens(57, 2000)).startswith(answer.text)


def _full_after(seed: int, most: int) -> int:
    """Tokens (given at once) after which the log holds `most` bytes: the first one, then tens."""
    tokens = demo_tokens(seed, 2000)
    return next(
        count for count in range(1, 2000, 10) if len("".join(tokens[:count]).encode()) >= most
    )


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("early", [0, 30])
async def test_a_failure_at_the_size_limit_still_ends_the_response(
    opened: OpenSession, serve: Serve, retries: int, early: int
) -> None:
    """What a restart replaced must not eat up the room of the next attempt or of the fallback."""
    server = await serve(response_bytes=1024, model_retries=retries, fallback_text=_FALLBACK)
    session = await opened(server)
    fail_after = _full_after(58, 1024) - early
    async with session.connect() as connection:
        text = demo(
            tokens=fail_after + 5,
            gap_ms=0,
            seed=58,
            fail_after=fail_after,
            fail_attempts=retries or 1,
        )
        answer = await connection.ask("m1", None, text)
        whole = "".join(demo_tokens(58, fail_after + 5))
        if retries:
            assert answer.text == whole[: len(answer.text)]
            assert len(answer.text) >= min(1000, len(whole) - 100)
        else:
            assert whole.startswith(answer.text)
            assert checked_error(answer.end or {})["code"] == "upstream_failed"
        assert (await connection.ask("m2", "m1", demo(tokens=3, gap_ms=1))).finish_reason == "stop"
    await server.until_metric("generations_running", 0)


async def test_cancel_between_two_attempts(opened: OpenSession, strict_server: LocalServer) -> None:
    session = await opened(strict_server)
    async with session.connect() as connection:
        for number in range(6):
            previous = f"m{number - 1}" if number else None
            text = demo(tokens=20, gap_ms=2, fail_after=2, fail_attempts=9)
            start = await connection.message(f"m{number}", previous, text)
            await asyncio.sleep(0.03 * number)
            await connection.send("response.cancel", response_id=start["response_id"])
            answer = await connection.whole(start["response_id"])
            assert answer.finish_reason == "cancelled" or answer.end
    await strict_server.until_metric("generations_running", 0)
