"""The OpenAI token source against a server that isn't ours (`@copilotkit/aimock`)."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import psutil
import pytest

from tests.integration.answer import Frame
from tests.integration.chat_client import call, checked_error
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.server_process import free_port

_FOLDER = Path(__file__).parent / "openai_server"
_FIXTURES = _FOLDER / "fixtures"
_FALLBACK = "The model is away."


def _content(question: str) -> str:
    rows = json.loads((_FIXTURES / "answers.json").read_text())["fixtures"]
    content: str = next(
        row["response"]["content"]
        for row in rows
        if row["match"]["userMessage"] == question and "sequenceIndex" not in row["match"]
    )
    return content


@pytest.fixture(scope="module")
def model_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a running model server."""
    if shutil.which("npm") is None:
        pytest.fail("these tests need Node.js 20.15 or newer with npm; nothing was tested")
    if not (_FOLDER / "node_modules" / "@copilotkit" / "aimock").is_dir():
        subprocess.run(
            ["npm", "ci", "--silent", "--no-audit", "--no-fund"],
            cwd=_FOLDER,
            check=True,
            timeout=110,
        )
    port = free_port()
    log = tmp_path_factory.mktemp("model") / "model.log"
    command = [
        "node",
        "node_modules/@copilotkit/aimock/dist/cli.js",
        "-p",
        str(port),
        "-f",
        str(_FIXTURES),
        "--strict",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=_FOLDER, stdout=output, stderr=subprocess.STDOUT)
    give_up_at = time.monotonic() + 20
    while "listening on" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < give_up_at, log.read_text()
        time.sleep(0.05)
    yield port
    process.terminate()
    process.wait(10)


@pytest.fixture
async def server(serve: Serve, model_port: int) -> LocalServer:
    """Our server in front of it."""
    return await serve(
        model="openai",
        model_url=f"http://127.0.0.1:{model_port}/v1",
        model_name="gpt-of-the-tests",
        model_api_key="sk-of-the-tests",
        fallback_text=_FALLBACK,
        model_repeatable=True,
    )


@pytest.fixture
async def strict_server(serve: Serve, model_port: int) -> LocalServer:
    """The same without a fallback answer."""
    return await serve(
        model="openai",
        model_url=f"http://127.0.0.1:{model_port}/v1/",
        fallback_text="",
        model_repeatable=True,
    )


def _upstream_connections(port: int) -> int:
    connections = psutil.Process().net_connections("tcp")
    return sum(
        row.status == "ESTABLISHED" and bool(row.raddr) and row.raddr.port == port
        for row in connections
    )


async def _asked(http: aiohttp.ClientSession, port: int, question: str) -> list[Frame]:
    """What the model server was asked with this as the last message."""
    journal = json.loads(
        (await call(http, "GET", f"http://127.0.0.1:{port}/__aimock/journal")).body
    )
    requests: list[Frame] = [row for row in journal if row["path"] == "/v1/chat/completions"]
    return [row for row in requests if row["body"]["messages"][-1]["content"] == question]


async def test_the_text_is_identical(
    opened: OpenSession, server: LocalServer, model_port: int, http: aiohttp.ClientSession
) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, "a long answer")
    assert answer.text == _content("a long answer")
    assert answer.deltas > 3
    assert answer.restarts == []
    assert answer.finish_reason == "stop"
    assert answer.end is not None
    assert answer.end["usage"] == {"prompt_tokens": 11, "completion_tokens": 42}
    assert answer.end["degraded"] is False
    (asked,) = await _asked(http, model_port, "a long answer")
    assert asked["body"]["model"] == "gpt-of-the-tests"
    assert asked["body"]["stream"] is True
    assert "sk-of-the-tests" not in server.log


async def test_a_cut_answer_says_length(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, "a cut answer")
    assert (answer.text, answer.finish_reason) == (_content("a cut answer"), "length")


async def test_history_is_sent(
    opened: OpenSession, server: LocalServer, model_port: int, http: aiohttp.ClientSession
) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        first = await connection.ask("m1", None, "my name is Ada")
        second = await connection.ask("m2", "m1", "what is my name")
    assert (first.text, second.text) == ("Hello Ada.", "Your name is Ada.")
    (asked,) = await _asked(http, model_port, "what is my name")
    assert [(turn["role"], turn["content"]) for turn in asked["body"]["messages"]] == [
        ("user", "my name is Ada"),
        ("assistant", "Hello Ada."),
        ("user", "what is my name"),
    ]


async def test_a_rate_limit_that_passes_is_not_seen(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, "answer 429 once")
    assert (answer.text, answer.restarts) == (_content("answer 429 once"), [])


async def test_a_break_in_the_middle_is_restarted(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, "break off once")
    assert len(answer.restarts) == 1
    assert (answer.text, answer.finish_reason) == (_content("break off once"), "stop")


@pytest.mark.parametrize(
    ("question", "attempts", "kind", "code"),
    [
        ("always 500", 2, "upstream_error", "upstream_failed"),
        ("always 401", 1, "upstream_error", "model_not_set_up"),
        ("always break off", 2, "upstream_error", "upstream_failed"),
    ],
)
async def test_what_stays_wrong_ends_in_the_fallback_or_behind_text_in_an_error(
    opened: OpenSession,
    server: LocalServer,
    strict_server: LocalServer,
    model_port: int,
    http: aiohttp.ClientSession,
    question: str,
    attempts: int,
    kind: str,
    code: str | None,
) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, question)
        assert answer.end is not None
        if question == "always break off":
            assert _FALLBACK not in answer.text
            assert checked_error(answer.end)["code"] == code
        else:
            assert (answer.text, answer.end["degraded"]) == (_FALLBACK, True)
    assert len(await _asked(http, model_port, question)) == attempts
    session = await opened(strict_server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, question)
        assert answer.end is not None
        error = checked_error(answer.end)
        assert error["type"] == kind
        assert code is None or error["code"] == code
        assert "sk-secret" not in json.dumps(answer.end), (
            "what the model's server says of our key is not for clients"
        )
        assert "EVENFLOW_" not in error["message"], "how to set up the server is not for clients"


async def test_what_the_model_will_not_answer_is_refused(
    opened: OpenSession, server: LocalServer, model_port: int, http: aiohttp.ClientSession
) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, "always 400")
        assert answer.end is not None
        error = checked_error(answer.end)
        assert (error["type"], error["status"]) == ("invalid_request_error", 400)
    assert len(await _asked(http, model_port, "always 400")) == 1


async def test_cancel_closes_the_connection_to_the_model(
    opened: OpenSession, server: LocalServer, model_port: int
) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        await asyncio.sleep(0.1)
        idle = _upstream_connections(model_port)
        start = await connection.message("m1", None, "a very slow answer")
        await connection.reach(start["response_id"], 1)
        assert _upstream_connections(model_port) >= 1
        await connection.send("response.cancel", response_id=start["response_id"])
        answer = await connection.whole(start["response_id"])
        assert answer.finish_reason == "cancelled"
        await server.until_metric("generations_running", 0)
        await asyncio.sleep(0.1)
        # A connection kept for later was used for this answer, or none was: either way its own is
        # closed.
        assert _upstream_connections(model_port) == max(0, idle - 1)
