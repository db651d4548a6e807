"""The OpenAI token source against a server on a bad day: bytes split anywhere, garbage, silence,
floods.
"""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from tests.integration.answer import Answer
from tests.integration.chat_client import checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.scripted_model import (
    DONE,
    END,
    Reply,
    ScriptedModel,
    chunk,
    event,
    scripted_model,
)
from tests.integration.server_process import Server, free_port

_MEGABYTE = 1_048_576
_TEXT = ["Größe ", "流れ", " 🙂 ", '"quoted" ', "back\\slash\n", "end."]
_WHOLE = "".join(_TEXT)
_GOOD = b"".join(chunk(text) for text in _TEXT) + END
_COMPLETION = {"object": "chat.completion", "choices": [{"message": {"content": _WHOLE}}]}


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    """The model server."""
    async with scripted_model() as serving:
        yield serving


@pytest.fixture
async def server(serve: Serve, model: ScriptedModel) -> LocalServer:
    """Our server in front of it, without a fallback answer."""
    return await serve(
        model="openai",
        model_url=model.url,
        model_api_key="sk-of-the-tests",
        fallback_text="",
        model_repeatable=True,
        model_first_sign_seconds=1,
        model_silence_seconds=1,
        model_deadline_seconds=3,
    )


async def _ask(opened: OpenSession, server: Server) -> Answer:
    session = await opened(server)
    async with session.connect() as connection:
        return await connection.ask("m1", None, "a question")


def _bytewise(data: bytes, size: int = 1) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


_LEGAL = {
    "whole": [_GOOD],
    "sevens": _bytewise(_GOOD, 7),
    "CRLF": [_GOOD.replace(b"\n\n", b"\r\n\r\n")],
    "CRLF in halves": _bytewise(_GOOD.replace(b"\n\n", b"\r\n\r\n"), 3),
    "no space": [_GOOD.replace(b"data: ", b"data:")],
    "comments and other fields": [
        b": keep-alive\n\n" + _GOOD.replace(b"data: ", b"event: x\nid: 7\nretry: 10\ndata: ")
    ],
    "no DONE": [b"".join(chunk(text) for text in _TEXT) + chunk(finish_reason="stop")],
    "text with the finish": [
        b"".join(chunk(text) for text in _TEXT[:-1]) + chunk(_TEXT[-1], finish_reason="stop") + DONE
    ],
    "roles, nulls and empties": [
        event(
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"role": "assistant", "content": None},
                        "finish_reason": None,
                    }
                ],
                "usage": None,
            }
        )
        + event({"choices": []})
        + chunk("")
        + _GOOD
    ],
    "error: null": [
        b"".join(
            event(json.loads(part[6:]) | {"error": None}) for part in _GOOD.split(b"\n\n")[:-2]
        )
        + DONE
    ],
    "a finish without delta": [
        b"".join(chunk(text) for text in _TEXT)
        + event({"choices": [{"index": 0, "finish_reason": "stop"}]})
        + DONE
    ],
    "usage with details": [
        b"".join(chunk(text) for text in _TEXT)
        + chunk(finish_reason="stop")
        + event(
            {
                "choices": [],
                "usage": {"prompt_tokens": 1, "completion_tokens": 2, "details": {"x": 1}},
            }
        )
        + DONE
    ],
    "DONE without a finish reason": [b"".join(chunk(text) for text in _TEXT) + DONE],
    "DONE and white space": [_GOOD.rstrip() + b" \n\n"],
    "what is no chunk": [
        b"".join(event(each) for each in ([1, 2], 7, None)) + b"data:\n\ndata: 50%\n\n" + _GOOD
    ],
    "not a stream": [json.dumps(_COMPLETION, indent=1).encode()],
    "usage of another shape": [
        b"".join(chunk(text) for text in _TEXT)
        + chunk(finish_reason="stop")
        + event({"choices": [], "usage": {"total_tokens": 3}})
        + DONE
    ],
}


async def test_an_answer_in_whatever_pieces(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    wrong = {}
    for what, pieces in _LEGAL.items():
        model.will(Reply(pieces, gap=0.0))
        answer = await _ask(opened, server)
        if (answer.text, answer.finish_reason, len(model.requests)) != (_WHOLE, "stop", 1):
            wrong[what] = (answer.end or {}).get("error")
    assert not wrong


async def test_an_answer_byte_by_byte(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(Reply(_bytewise(_GOOD), gap=0.0005))
    answer = await _ask(opened, server)
    assert (answer.text, answer.finish_reason, answer.restarts) == (_WHOLE, "stop", [])
    assert model.headers[0]["Authorization"] == "Bearer sk-of-the-tests"
    assert model.requests[0]["stream_options"] == {"include_usage": True}


_HALF = b"".join(chunk(text) for text in _TEXT[:3])
_FAILURES = {
    "no JSON": Reply([_HALF + b"data: {nonsense\n\n"]),
    "half a chunk": Reply([_HALF + chunk(_TEXT[3])[:-12] + b"\n\n"]),
    "choices of another shape": Reply([_HALF + event({"choices": 7})]),
    "content that is no text": Reply(
        [_HALF + event({"choices": [{"delta": {"content": {"a": 1}}}]})]
    ),
    "an error event": Reply([_HALF + event({"error": {"message": "out of memory", "code": 500}})]),
    "the end before the end": Reply([_HALF]),
    "a broken connection": Reply([_HALF], gap=0.05, then="break"),
    "half of what is not a stream": Reply(
        [json.dumps(_COMPLETION).encode()[:-4]],
        content_type="application/json",
    ),
    "nothing": Reply([]),
    "a status": Reply([b"<html>Bad Gateway</html>"], status=502, content_type="text/html"),
    "a status and bytes": Reply(
        [b"\xff\xfe\x00"], status=500, content_type="text/plain; charset=utf-8"
    ),
}


@pytest.mark.usefixtures("no_pause_before_a_retry")
async def test_a_failure_is_retried_once_and_then_told(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    wrong = {}
    for what, reply in _FAILURES.items():
        model.will(reply, Reply([_GOOD]))
        answer = await _ask(opened, server)
        if (answer.text, answer.finish_reason, len(model.requests)) != (_WHOLE, "stop", 2):
            wrong[what] = (answer.text, answer.end)
        model.will(reply)
        answer = await _ask(opened, server)
        error = checked_error(answer.end or {})
        if (error["type"], error["code"], len(model.requests)) != (
            "upstream_error",
            "upstream_failed",
            2,
        ):
            wrong[f"{what}, twice"] = (answer.text, answer.end)
    assert not wrong
    await server.until_metric("generations_running", 0)
    await model.until_open(0)


@pytest.mark.parametrize(
    "end",
    [
        chunk(finish_reason="stop"),
        chunk(finish_reason="stop", usage={"prompt_tokens": 1, "completion_tokens": 2}),
        END,
    ],
)
async def test_an_answer_that_is_cut_behind_its_end_is_whole(
    opened: OpenSession, server: LocalServer, model: ScriptedModel, end: bytes
) -> None:
    texts = b"".join(chunk(text) for text in _TEXT)
    model.will(Reply([texts, end], gap=0.05, then="break"))
    answer = await _ask(opened, server)
    assert (answer.text, answer.finish_reason, len(model.requests)) == (_WHOLE, "stop", 1)


async def test_of_an_event_that_is_too_long_what_fits_is_kept(
    opened: OpenSession, serve: Serve, model: ScriptedModel
) -> None:
    server = await serve(model="openai", model_url=model.url, fallback_text="")
    text = "x" * 1_200_000
    for long in (chunk(text), chunk(text * 4)):
        model.will(Reply([long + END]))
        answer = await _ask(opened, server)
        assert (answer.finish_reason, len(model.requests)) == ("length", 1)
        assert len(answer.text) >= _MEGABYTE


@pytest.mark.parametrize(
    ("then", "code"),
    [("silence before the head", "first_token_timeout"), ("silence", "model_timeout")],
)
async def test_a_silent_server_is_hung_up_on(
    opened: OpenSession, serve: Serve, model: ScriptedModel, then: str, code: str
) -> None:
    server = await serve(
        model="openai", model_url=model.url, fallback_text="", model_retries=0,
        model_first_sign_seconds=1, model_silence_seconds=1,
    )  # fmt: skip
    model.will(Reply([_HALF], then=then))
    asked = asyncio.create_task(_ask(opened, server))
    await model.until_open(1)
    await serve.time_passes(2)
    answer = await asked
    assert checked_error(answer.end or {})["code"] == code
    await model.until_open(0)


async def test_a_server_that_is_not_there(opened: OpenSession, serve: Serve) -> None:
    server = await serve(
        model="openai", model_url=f"http://127.0.0.1:{free_port()}/v1", fallback_text=""
    )
    answer = await _ask(opened, server)
    error = checked_error(answer.end or {})
    assert (error["type"], error["code"]) == ("upstream_error", "upstream_failed")


async def test_cancel_hangs_up(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(Reply([chunk("word ")] * 1000, gap=0.02))
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, "a question")
        await connection.reach(start["response_id"], 2)
        assert model.open == 1
        await connection.send("response.cancel", response_id=start["response_id"])
        assert (await connection.whole(start["response_id"])).finish_reason == "cancelled"
        await model.until_open(0, 10)


async def test_a_pause_holds_the_server_back(
    opened: OpenSession, serve: Serve, model: ScriptedModel
) -> None:
    """While every reader pauses, the model's connection isn't read, so that its server stands
    still.
    """
    server = await serve(
        model="openai", model_url=model.url, pause_window_bytes=1000, response_bytes=67_108_864
    )
    model.will(Reply([chunk("x" * 10_000)] * 3000 + [END]))
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, "a question")
        await connection.send("response.pause", response_id=start["response_id"])
        await connection.silent_for(1)
        assert model.open == 1
        await connection.send("response.cancel", response_id=start["response_id"])
        await model.until_open(0)


_FLOODS = {
    "a line without end": Reply([b"data: " + b"x" * 65_536] + [b"x" * 65_536] * 800),
    "an event without end": Reply([b"data: x\n" * 8192] * 800),
    "an error page without end": Reply([b"x" * 65_536] * 800, status=500),
}


async def test_a_flood_costs_no_memory(
    opened: OpenSession, serve: Serve, model: ScriptedModel
) -> None:
    server = await serve(model="openai", model_url=model.url, fallback_text="", model_retries=0)
    model.will(Reply([_GOOD]))
    await _ask(opened, server)
    tracemalloc.start()
    try:
        for what, flood in _FLOODS.items():
            tracemalloc.reset_peak()  # what is freed again with the answer counts too
            before, _ = tracemalloc.get_traced_memory()
            model.will(flood)
            answer = await _ask(opened, server)
            assert checked_error(answer.end or {})["code"] == "upstream_failed", what
            _, peak = tracemalloc.get_traced_memory()
            # A line and an event may be 3 MB, and take a few times as much while they are taken
            # apart; the floods have 50 MB.
            assert peak - before < 16 * _MEGABYTE, what
    finally:
        tracemalloc.stop()


async def test_directives_are_the_demo_models_alone(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(Reply([_GOOD]))
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, demo(tokens=5))
    assert answer.text == _WHOLE
