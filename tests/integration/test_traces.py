"""The trace of an answer, as a collector has it: one trace from the client to the model, over each
transport and protocol, and through a take-over.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from evenflow.stream_core.records.answer_record import AnswerRecord
from tests.integration.chat_client import COMPACT, V1, ChatSession, call, chat_message
from tests.integration.conftest import OpenSession, Serve
from tests.integration.counting_model import counting_model, words
from tests.integration.deployment import LocalDeployment
from tests.integration.realtime_client import realtime
from tests.integration.scripted_model import (
    END,
    Reply,
    ScriptedModel,
    chunk,
    event,
    scripted_model,
)
from tests.integration.server_process import STATE_SECONDS, free_port
from tests.integration.trace_collector import CollectedSpan, TraceCollector, trace_collector

_TRACE, _PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_TRACEPARENT = f"00-{_TRACE}-{_PARENT}-01"
_HEADERS = {"traceparent": _TRACEPARENT}
_SECRET = "xylophone"
"""What the user says, and the model."""
_QUESTION = f"{_SECRET} {_SECRET}?"
_ANSWER = ("answer", "accept", "queue", "chat openai", "prefill", "decode", "emit", "store")


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model() as running:
        counted = {"prompt_tokens": 7, "completion_tokens": 5}
        says = [chunk(f"{_SECRET} ")] * 5
        running.will(Reply([*says, event({"choices": [], "usage": counted}), END]))
        yield running


@pytest.fixture
async def collector() -> AsyncIterator[TraceCollector]:
    async with trace_collector() as running:
        yield running


def _over_websocket(protocol: str) -> Callable[..., Awaitable[None]]:
    async def ask(session: ChatSession, _: aiohttp.ClientSession) -> None:
        async with session.connect(protocol) as connection:
            message = chat_message("m1", None, _QUESTION)
            await connection.send("chat.message", **message, traceparent=_TRACEPARENT)
            start = await connection.next_of("chat.response.start")
            await connection.whole(start["response_id"])

    return ask


async def _over_realtime(session: ChatSession, _: aiohttp.ClientSession) -> None:
    async with realtime(session) as connection:
        asked = await connection.start("m1", None, _QUESTION, traceparent=_TRACEPARENT)
        await connection.whole(asked)


async def _over_responses_websocket(session: ChatSession, http: aiohttp.ClientSession) -> None:
    url = f"{session.http_url}/v1/responses"
    async with http.ws_connect(url, headers=_HEADERS) as socket:
        await socket.send_json({"type": "response.create", "model": "openai", "input": _QUESTION})
        while (await socket.receive_json())["type"] != "response.completed":
            pass


async def _posted(session: ChatSession) -> str:
    body = chat_message("m1", None, _QUESTION)
    posted = await session.call("POST", "/chat/message", body, headers=_HEADERS)
    response_id: str = posted.json["response_id"]
    return response_id


async def _over_events(session: ChatSession, _: aiohttp.ClientSession) -> None:
    async with session.events(await _posted(session)) as events:
        await events.read()


async def _over_streams(session: ChatSession, _: aiohttp.ClientSession) -> None:
    read = await session.call("GET", f"/streams/{await _posted(session)}?offset=-1&live=sse")
    assert read.status == 200, read.body


async def _over_polls(session: ChatSession, _: aiohttp.ClientSession) -> None:
    await session.poll_whole(await _posted(session))


def _request(path: str, **body: Any) -> Callable[..., Awaitable[None]]:
    async def ask(session: ChatSession, http: aiohttp.ClientSession) -> None:
        answer = await call(http, "POST", session.http_url + path, body, headers=_HEADERS)
        assert answer.status == 200, answer.body

    return ask


_MESSAGES = [{"role": "user", "content": _QUESTION}]
_PARTS = [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": _QUESTION}]}]
_RUN = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": []}

_WAYS = {
    "a WebSocket": (_over_websocket(V1), "websocket"),
    "the compact subprotocol": (_over_websocket(COMPACT), "websocket"),
    "/realtime": (_over_realtime, "websocket"),
    "server-sent events": (_over_events, "sse"),
    "/streams": (_over_streams, "sse"),
    "long polls": (_over_polls, "poll"),
    "a stream of completions": (
        _request("/v1/chat/completions", model="openai", messages=_MESSAGES, stream=True),
        "sse",
    ),
    "a whole completion": (
        _request("/v1/chat/completions", model="openai", messages=_MESSAGES),
        "http",
    ),
    "OpenAI's responses": (
        _request("/v1/responses", model="openai", input=_QUESTION, stream=True),
        "sse",
    ),
    "OpenAI's responses over a WebSocket": (_over_responses_websocket, "websocket"),
    "Anthropic's messages": (
        _request("/v1/messages", model="openai", max_tokens=99, messages=_MESSAGES, stream=True),
        "sse",
    ),
    "AI SDK": (_request("/api/chat", id="c", messages=_PARTS), "sse"),
    "AG-UI": (
        _request("/agui", **_RUN, forwardedProps={}, messages=[{"id": "m1", **_MESSAGES[0]}]),
        "sse",
    ),
}


def _in_lines(caplog: pytest.LogCaptureFixture) -> list[str | None]:
    """The traces that the lines of answers name."""
    return [it.msg.trace for it in caplog.records if isinstance(it.msg, AnswerRecord)]


def _of(spans: list[CollectedSpan], name: str) -> CollectedSpan:
    (found,) = (span for span in spans if span.name == name)
    return found


@pytest.mark.parametrize("way", _WAYS)
async def test_an_answer_is_one_trace_from_its_client_on(
    collector: TraceCollector,
    model: ScriptedModel,
    serve: Serve,
    opened: OpenSession,
    http: aiohttp.ClientSession,
    caplog: pytest.LogCaptureFixture,
    way: str,
) -> None:
    ask, transport = _WAYS[way]
    server = await serve(collector.environment, model="openai", model_url=model.url)
    await ask(await opened(server), http)
    spans = await collector.until(*_ANSWER)
    assert {span.name for span in spans} == set(_ANSWER)
    assert {span.trace_id for span in spans} == {_TRACE}
    assert {span.service for span in spans} == {"evenflow-handler"}
    answer, asked = _of(spans, "answer"), _of(spans, "chat openai")
    assert model.headers[0]["traceparent"] == f"00-{_TRACE}-{asked.span_id}-01"
    assert (answer.parent_id, answer.kind, answer.links) == (_PARENT, "SPAN_KIND_SERVER", ())
    for span in spans:
        if span is not answer:
            inner = span.name in ("prefill", "decode")
            assert span.parent_id == (asked if inner else answer).span_id, span
    assert answer.attributes["evenflow.state"] == "completed"
    assert asked.kind == "SPAN_KIND_CLIENT"
    assert (
        asked.attributes.items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "openai",
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.output_tokens": 5,
        }.items()
    )
    emits = [span.attributes["evenflow.transport"] for span in spans if span.name == "emit"]
    assert set(emits) == {transport}
    phases = [_of(spans, name) for name in ("accept", "queue", "prefill", "decode")]
    for earlier, later in itertools.pairwise(phases):
        assert abs(later.began - earlier.ended) < 1_000_000, (earlier, later)
    assert not any(_SECRET.encode() in body for body in collector.bodies)
    assert _in_lines(caplog) == [_TRACE]


async def test_a_failed_answer_has_its_code_and_nothing_that_the_server_said(
    collector: TraceCollector, model: ScriptedModel, serve: Serve, opened: OpenSession
) -> None:
    model.will(Reply([_SECRET.encode()], status=400, content_type="text/plain"))
    server = await serve(
        collector.environment, model="openai", model_url=model.url, fallback_text=""
    )
    session = await opened(server)
    ended, _, _ = await session.poll_whole(await _posted(session))
    answer = _of(await collector.until("answer", "store"), "answer")
    assert answer.failed
    assert answer.attributes["error.type"] == ended["metadata"]["error"]["code"]
    assert not any(_SECRET.encode() in body for body in collector.bodies)


async def test_a_trace_that_nobody_has_begun_has_the_id_of_its_response(
    collector: TraceCollector, serve: Serve, opened: OpenSession
) -> None:
    session = await opened(await serve(collector.environment))
    posted = await session.post("m1", None, _QUESTION)
    answer = _of(await collector.until("answer"), "answer")
    assert answer.parent_id == ""
    assert posted.json["response_id"] == f"rsp_{answer.trace_id}"


async def test_what_the_client_does_not_sample_is_not_traced_and_its_model_is_told_so(
    collector: TraceCollector,
    model: ScriptedModel,
    serve: Serve,
    opened: OpenSession,
    caplog: pytest.LogCaptureFixture,
) -> None:
    unsampled = f"00-{_TRACE}-{_PARENT}-00"
    server = await serve(collector.environment, model="openai", model_url=model.url)
    session = await opened(server)
    body = chat_message("m1", None, "hi") | {"traceparent": unsampled}
    first = await session.call("POST", "/chat/message", body)
    await session.poll_whole(first.json["response_id"])
    second = await session.post("m2", "m1", "hi")
    await session.poll_whole(second.json["response_id"])
    spans = await collector.until("answer", "store")
    of_second = second.json["response_id"].removeprefix("rsp_")
    assert {span.trace_id for span in spans} == {of_second}
    assert _in_lines(caplog) == [_TRACE, of_second]
    assert model.headers[0]["traceparent"] == unsampled


async def test_a_take_over_goes_on_with_the_trace_and_links_to_the_task_before(
    collector: TraceCollector, deployment: LocalDeployment, opened: OpenSession
) -> None:
    async with counting_model() as model:
        settings = {"model": "openai", "model_url": model.url, "model_continues": "true"}
        owner = await deployment.handler(collector.environment, **settings)
        other = await deployment.handler(collector.environment, **settings)
        session = await opened(owner)
        model.allow(3)
        body = chat_message("m1", None, words(6, 1))
        posted = await session.call("POST", "/chat/message", body, headers=_HEADERS)
        response_id = posted.json["response_id"]
        await collector.until("accept", "queue")
        polled = await session.poll(response_id)
        assert polled.json["new_text"]
        await owner.vanish()
        await deployment.lease_runs_out()
        await other.until_metric("lease_take_overs_total", 1)
        async with asyncio.timeout(STATE_SECONDS):
            ended, _, _ = await session.at(other).poll_whole(response_id)
        assert ended["status"] == "completed"
        spans = await collector.until("take_over", "chat openai", "answer")
    assert {span.trace_id for span in spans} == {_TRACE}
    lost = _of(spans, "accept").parent_id
    second = next(span for span in spans if span.attributes.get("evenflow.epoch") == 2)
    assert (second.parent_id, second.links) == (_PARENT, ((_TRACE, lost),))
    assert _of(spans, "take_over").parent_id == second.span_id
    asked = next(
        span for span in spans if span.name == "chat openai" and span.parent_id == second.span_id
    )
    inner = {span.name for span in spans if span.parent_id == asked.span_id}
    assert inner == {"prefill", "decode"}


async def test_without_a_collector_there_are_answers_and_an_end(
    model: ScriptedModel, serve: Serve, opened: OpenSession
) -> None:
    nobody = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "0.1",
        "OTEL_TRACES_SAMPLER": "always_on",
    }
    server = await serve(nobody, model="openai", model_url=model.url)
    session = await opened(server)
    ended, _, _ = await session.poll_whole(await _posted(session))
    assert ended["status"] == "completed"
    server.leave()
    await server.ended()
    assert "Failed to export" in server.log
