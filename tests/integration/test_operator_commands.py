"""`evenflow answers`, `models`, `nodes`, `log-level`, `config` and `store`: a running server, as
its operator sees it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from evenflow.__main__ import main
from tests.integration.chat_client import ChatSession, call, demo, open_session
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer


class Output(NamedTuple):
    """What a command printed."""

    status: int
    out: str
    err: str


Command = Callable[..., Awaitable[Output]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evenflow.db"


@pytest.fixture
async def server(serve: Serve, path: Path) -> LocalServer:
    return await serve(store="sqlite", store_path=str(path))


@pytest.fixture
def evenflow(
    server: LocalServer,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Run a command beside the server, with its variables."""
    monkeypatch.setenv("EVENFLOW_STORE_PATH", str(path))
    monkeypatch.setenv("EVENFLOW_HTTP_PORT", str(urlsplit(server.http_url).port))

    async def run(*arguments: str) -> Output:
        status = await asyncio.to_thread(main, arguments)
        out, err = capsys.readouterr()
        return Output(status, out, err)

    return run


@pytest.fixture
async def session(server: LocalServer, http: Any) -> ChatSession:
    return await open_session(http, server.http_url)


async def test_answers_are_listed_and_one_is_cancelled(
    session: ChatSession, evenflow: Command
) -> None:
    posted = await session.post("m1", None, demo(tokens=3_000, gap_ms=20))
    response_id = posted.json["response_id"]
    listed = await evenflow("answers", "list")
    assert response_id in listed.out
    assert "public" in listed.out
    [node] = json.loads((await evenflow("answers", "list", "--json")).out)["nodes"]
    [answer] = node["answers"]
    assert (answer["response_id"], answer["state"]) == (response_id, "running")
    assert "no answers" in (await evenflow("answers", "list", "--tenant", "acme")).out
    assert (await evenflow("answers", "cancel", response_id)).status == 0
    ended = (await session.poll(response_id, 0, 10_000)).json
    assert ended["status"] == "cancelled"
    again = await evenflow("answers", "cancel", response_id)
    assert (again.status, again.out.strip()) == (1, "no node has it; nothing was changed")


async def test_models_and_nodes(session: ChatSession, evenflow: Command) -> None:
    posted = await session.post("m1", None, demo(tokens=3, gap_ms=1))
    await session.poll_whole(posted.json["response_id"])
    [node] = json.loads((await evenflow("models", "list", "--json")).out)["nodes"]
    [model] = node["models"]
    assert (model["running"], model["is_failing"]) == (0, False)
    assert "closed" in (await evenflow("models", "list")).out
    assert (await evenflow("models", "reset", model["model"])).status == 0
    assert (await evenflow("models", "reset", "another")).status == 1
    nodes = await evenflow("nodes")
    assert node["node"] in nodes.out
    assert nodes.out.rstrip().endswith("yes")


async def test_all_nodes_are_asked(
    serve: Serve, server: LocalServer, path: Path, http: Any, evenflow: Command
) -> None:
    other = await serve(store="sqlite", store_path=str(path))
    session = await open_session(http, other.http_url)
    posted = await session.post("m1", None, demo(tokens=3_000, gap_ms=20))
    response_id = posted.json["response_id"]
    async with asyncio.timeout(10):
        # Until it has seen the other one's lease.
        while response_id not in (await evenflow("answers", "list")).out:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (await evenflow("answers", "cancel", response_id)).status == 0
    assert (await session.poll(response_id, 0, 10_000)).json["status"] == "cancelled"


async def test_the_level_of_the_log(evenflow: Command) -> None:
    before = logging.getLogger().level
    try:
        assert (await evenflow("log-level", "debug")).status == 0
        assert logging.getLogger().level == logging.DEBUG
    finally:
        logging.getLogger().setLevel(before)


async def test_a_server_that_is_not_there_and_one_with_other_keys(
    evenflow: Command, tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await serve(store="sqlite", store_path=str(tmp_path / "other.db"))
    monkeypatch.setenv("EVENFLOW_HTTP_PORT", str(urlsplit(other.http_url).port))
    refused = await evenflow("nodes")
    assert refused.status == 1
    assert "has other keys" in refused.err
    monkeypatch.setenv("EVENFLOW_HTTP_PORT", "9")
    absent = await evenflow("nodes")
    assert absent.status == 1
    assert "no server answers at http://127.0.0.1:9" in absent.err


@pytest.mark.parametrize("authorization", ["", "Bearer x", "of a session"])
async def test_only_operators_may_ask(
    authorization: str, session: ChatSession, http: Any, server: LocalServer
) -> None:
    if authorization == "of a session":
        authorization = f"Bearer {session.token}"
    headers = {"Authorization": authorization}
    url = f"{server.http_url}/operator"
    answer = await call(http, "POST", url, {"do": "list_nodes"}, headers=headers)
    assert answer.status == 401


async def test_the_settings_in_force_without_their_secrets(
    evenflow: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENFLOW_MODEL_API_KEY", "sk-very-secret")
    shown = await evenflow("config")
    assert shown.status == 0
    assert "EVENFLOW_STORE_PATH" in shown.out
    assert "EVENFLOW_LEASE_SECONDS" not in shown.out
    assert "sk-very-secret" not in shown.out
    assert "EVENFLOW_LEASE_SECONDS" in (await evenflow("config", "--all")).out


async def test_a_copy_of_a_running_server_has_all_that_it_has(
    session: ChatSession, evenflow: Command, path: Path, tmp_path: Path
) -> None:
    posted = await session.post("m1", None, demo(tokens=5, gap_ms=1))
    await session.poll_whole(posted.json["response_id"])
    copy = tmp_path / "copy.db"
    assert (await evenflow("store", "backup", str(copy))).status == 0
    assert "1 messages" in (await evenflow("store", "check", str(copy))).out
    again = await evenflow("store", "backup", str(copy))
    assert again.status == 1
    assert "exists already" in again.err
    refused = await evenflow("store", "restore", str(copy))
    assert refused.status == 1
    assert f"a server uses {path}" in refused.err
