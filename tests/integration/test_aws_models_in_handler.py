"""Bedrock and SageMaker behind a real handler: what a client sees over its WebSocket, and what
the model's server sees.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import aiohttp
import psutil
import pytest

from evenflow.fargate_handler.orchestrator import retry_policy
from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_core.upstream import rejection_backoff
from tests.integration.answer import Answer, Frame
from tests.integration.aws_models.certificate import tls_of_localhost
from tests.integration.aws_models.events import text_delta
from tests.integration.aws_models.model_server import ModelServer, model_server
from tests.integration.aws_models.reply import EVENT_STREAM, refuses, sends
from tests.integration.aws_models.services import BEDROCK, SERVICES, Service
from tests.integration.aws_models.signature import Credentials
from tests.integration.chat_client import checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.server_process import free_port
from tests.integration.spending import ENDLESS, INPUT, Spender

_TEXTS = ["Größe ", "流れ", " 🙂 ", '"quoted" ', "back\\slash\n", "end."]
_WHOLE = "".join(_TEXTS)
_CANCEL_MS = 200.0


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    """The model server."""
    async with model_server(port=free_port()) as serving:
        yield serving


@pytest.fixture(params=["bedrock", "sagemaker-vllm"])
def service(request: pytest.FixtureRequest) -> Service:
    """Each of them."""
    return SERVICES[request.param]


@pytest.fixture
async def server(
    serve: Serve,
    service: Service,
    model: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> LocalServer:
    """Our server in front of it, without a fallback answer."""
    _point_at(model.url, monkeypatch, tmp_path)
    return await serve(
        model=service.model, model_name="a-model", model_max_tokens=700, fallback_text=""
    )


def _point_at(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The handler inherits these."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name, value in Credentials().environment(url).items():
        monkeypatch.setenv(name, value)


async def _ask(opened: OpenSession, server: LocalServer, text: str = "a question") -> Answer:
    session = await opened(server)
    async with session.connect() as connection:
        return await connection.ask("m1", None, text)


def _error(answer: Answer) -> Frame:
    return checked_error(answer.end or {})


def _connections_to(url: str) -> int:
    port = int(url.rpartition(":")[2])
    rows = psutil.Process().net_connections("tcp")
    return sum(bool(row.raddr) and row.raddr.port == port for row in rows)


async def test_answers_arrive_with_their_usage_and_the_history_alternates(
    opened: OpenSession, server: LocalServer, service: Service, model: ModelServer
) -> None:
    model.will(sends(*service.begin(["word "] * 3), then="silence", headers=service.headers))
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, "first")
        await connection.send("response.cancel", response_id=start["response_id"])
        assert (await connection.whole(start["response_id"])).finish_reason == "cancelled"
        model.will(sends(*service.answer(_TEXTS), gap=0.002, headers=service.headers))
        answer = await connection.ask("m2", "m1", "again")
    assert (answer.text, answer.finish_reason, answer.restarts) == (_WHOLE, "stop", [])
    assert answer.end is not None
    assert answer.end["usage"] == {"prompt_tokens": 11, "completion_tokens": 42}
    roles = [turn["role"] for turn in model.requests[0]["messages"]]
    assert roles in (["user"], ["user", "assistant", "user"])
    assert "again" in str(model.requests[0]["messages"][-1]["content"])
    limit = (
        model.requests[0]
        .get("inferenceConfig", {})
        .get("maxTokens", model.requests[0].get("max_tokens"))
    )
    assert limit == 700


async def test_the_demo_directives_of_the_stand_in(
    opened: OpenSession, server: LocalServer, model: ModelServer
) -> None:
    answer = await _ask(opened, server, demo(tokens=100, gap_ms=2, seed=7, first_token_ms=1))
    assert answer.text == "".join(demo_tokens(7, 100))
    answer = await _ask(opened, server, demo(tokens=100, refuse=True))
    assert _error(answer)["code"] == "model_refused"
    answer = await _ask(opened, server, demo(tokens=10, gap_ms=2, fail_after=3))
    assert _error(answer)["code"] == "upstream_failed"


_TYPES = {"upstream_throttled": "rate_limit_error", "upstream_overloaded": "overloaded_error"}


async def test_a_failure_is_retried_once_and_then_told_and_a_throttle_is_waited_for(
    opened: OpenSession,
    server: LocalServer,
    service: Service,
    model: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # How long is waited before the second attempt.
    monkeypatch.setattr(rejection_backoff, "_FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(retry_policy, "_RETRY_PAUSE_SECONDS", (0.0, 0.01))
    begin, whole = (
        service.begin(_TEXTS[:3]),
        sends(*service.answer(_TEXTS), headers=service.headers),
    )
    garbage = begin[-1][:-1] + bytes([begin[-1][-1] ^ 1])
    failures = {
        "throttled": (refuses(429, "ThrottlingException", "Too many tokens"), "upstream_throttled"),
        "a reset": (
            sends(*begin, gap=0.01, then="break", headers=service.headers),
            "upstream_failed",
        ),
        "garbage": (
            sends(*begin, garbage, then="silence", headers=service.headers),
            "upstream_failed",
        ),
        "an event cut off": (
            sends(*begin, garbage[:-9], headers=service.headers),
            "upstream_failed",
        ),
    }
    for kind, (event, code) in service.in_stream.items():
        if code != "model_refused":
            failures[kind] = (sends(*begin, event, headers=service.headers), code)
    wrong: dict[str, object] = {}
    for what, (reply, code) in failures.items():
        model.will(reply, whole)
        answer = await _ask(opened, server)
        if (answer.text, answer.finish_reason, len(model.requests)) != (_WHOLE, "stop", 2):
            wrong[what] = (answer.text, answer.end)
        if code == "upstream_throttled":
            continue  # it waits in the queue, however often
        model.will(reply)
        error = _error(await _ask(opened, server))
        if (error["type"], error["code"], len(model.requests)) != (
            _TYPES.get(code, "upstream_error"),
            code,
            2,
        ):
            wrong[f"{what}, twice"] = error
    assert not wrong
    await server.until_metric("generations_running", 0)
    await model.until_open(0)
    assert _connections_to(model.url) <= 1, "one idle connection, for the next answer"


async def test_what_the_model_will_not_answer_is_refused_at_once(
    opened: OpenSession, server: LocalServer, service: Service, model: ModelServer
) -> None:
    model.will(
        refuses(400, "ValidationException", "Input is too long for requested model.")
        if service is BEDROCK
        else refuses(
            424,
            "ModelError",
            "…",
            OriginalStatusCode=400,
            OriginalMessage="Input is too long for it.",
        )
    )
    error = _error(await _ask(opened, server))
    assert (error["type"], error["code"]) == ("invalid_request_error", "context_length_exceeded")
    assert "too long" in error["message"]
    assert len(model.requests) == 1


async def test_wrong_credentials_are_told_to_us_alone(
    opened: OpenSession, serve: Serve, service: Service, model: ModelServer,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    _point_at(model.url, monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOFSOMEONEELSE")
    server = await serve(
        model=service.model, model_name="a-model", fallback_text="The model is away."
    )
    answer = await _ask(opened, server)
    assert answer.end is not None
    assert (answer.text, answer.end["degraded"]) == ("The model is away.", True)
    assert server.log.count("UnrecognizedClientException") == 1, "there was no second attempt"
    assert "check EVENFLOW_MODEL_NAME" in server.log
    assert Credentials.secret_key not in server.log
    await server.until_metric("generations_running", 0)


async def test_cancel_is_seen_by_the_model(
    opened: OpenSession, server: LocalServer, service: Service, model: ModelServer
) -> None:
    model.will(sends(*service.begin(["word "] * 2000), gap=0.02, headers=service.headers))
    session, taken, previous = await opened(server), [], None
    async with session.connect() as connection:
        for number in range(3):
            start = await connection.message(f"m{number}", previous, "a question")
            previous = f"m{number}"
            await connection.reach(start["response_id"], 2)
            model.hung_up_at.clear()
            began = time.monotonic()
            await connection.send("response.cancel", response_id=start["response_id"])
            assert (await connection.whole(start["response_id"])).finish_reason == "cancelled"
            await model.until_open(0)
            taken.append((model.hung_up_at[0] - began) * 1000)
            await server.until_metric("generations_running", 0)
    # The best one: the machine is shared, and a try may wait for its turn.
    assert min(taken) < _CANCEL_MS, taken
    assert _connections_to(model.url) == 0


async def test_many_answers_leave_nothing_behind(
    opened: OpenSession, server: LocalServer, model: ModelServer
) -> None:
    questions = [demo(tokens=1000, gap_ms=20)] * 10 + [demo(tokens=20, gap_ms=5, fail_after=3)] * 10
    questions += [demo(tokens=20, gap_ms=5)] * 10

    async def ask(question: str) -> None:
        session = await opened(server)
        async with session.connect() as connection:
            start = await connection.message("m1", None, question)
            await connection.reach(start["response_id"], 1)
            if "tokens=1000" in question:
                await connection.send("response.cancel", response_id=start["response_id"])
            await connection.whole(start["response_id"])

    await asyncio.gather(*map(ask, questions))
    await server.until_metric("generations_running", 0)
    await model.until_open(0)
    # Those of the 20 answers that ended by themselves may wait for the next one; both sides see
    # the same ones.
    assert _connections_to(model.url) == model.connections <= 20


# -- a server that never listens to whoever hangs up -----------------------------------------------


@contextmanager
def deaf_model(context: ssl.SSLContext) -> Iterator[tuple[str, list[float]]]:
    """Speaks TLS, and after the request only writes, until that fails: its URL, and the times
    when it failed.
    """
    failed_at: list[float] = []

    def speak(listener: socket.socket) -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as peer:
            peer.recv(65_536)
            head = (
                f"HTTP/1.1 200 OK\r\nContent-Type: {EVENT_STREAM}\r\nTransfer-Encoding: "
                "chunked\r\n\r\n"
            )
            peer.sendall(head.encode())
            event = text_delta("word ")
            try:
                for _ in range(1000):
                    peer.sendall(b"%x\r\n%b\r\n" % (len(event), event))
                    time.sleep(0.02)
            except OSError:
                failed_at.append(time.monotonic())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=speak, args=(listener,), daemon=True)
        thread.start()
        yield f"https://localhost:{listener.getsockname()[1]}", failed_at
        thread.join(5)


async def test_cancel_breaks_the_connection_to_a_model_that_only_writes(
    opened: OpenSession, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Under TLS a polite close waits for the other side's farewell, half a minute, while the
    model goes on.
    """
    context, trusted = tls_of_localhost(tmp_path)
    with deaf_model(context) as (url, failed_at):
        _point_at(url, monkeypatch, tmp_path)
        monkeypatch.setenv("AWS_CA_BUNDLE", str(trusted))
        session = await opened(await serve(model="bedrock", model_name="a-model"))
        async with session.connect() as connection:
            start = await connection.message("m1", None, "a question")
            await connection.reach(start["response_id"], 2)
            await connection.send("response.cancel", response_id=start["response_id"])
            await connection.whole(start["response_id"])
        for _ in range(500):
            if failed_at:
                break
            await asyncio.sleep(0.01)
    assert failed_at, "the model still speaks after 5 s"


async def test_a_model_that_goes_on_spends_no_more_than_is_reserved(
    serve: Serve,
    server: LocalServer,
    service: Service,
    model: ModelServer,
    http: aiohttp.ClientSession,
) -> None:
    spender = Spender(http, server)
    await spender.begin(serve)
    model.will(sends(*service.answer(ENDLESS), headers=service.headers))
    body = {"model": "a-model", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 50}
    answer = await spender.ask("/v1/chat/completions", **body)
    assert answer.json["choices"][0]["finish_reason"] == "length", answer.body
    assert await spender.committed() <= INPUT + 50 + 1
    refused = await spender.ask("/v1/chat/completions", **body, n_predict=20_000)
    assert (refused.status, len(model.requests)) == (400, 1)
