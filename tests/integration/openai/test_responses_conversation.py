"""What a request of the Responses API may go on from, and for whom it asks."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from tests.integration.chat_client import HttpAnswer, call, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.scripted_model import END, Reply, chunk, scripted_model


async def _create(
    http: aiohttp.ClientSession, server: LocalServer, token: str, **asked: Any
) -> HttpAnswer:
    body, headers = (
        json.dumps({"model": "demo"} | asked).encode(),
        {"Authorization": f"Bearer {token}"},
    )
    return await call(http, "POST", f"{server.http_url}/v1/responses", body, headers=headers)


@pytest.mark.parametrize("reference", [False, True])
async def test_only_an_answer_that_has_ended_is_gone_on_from(
    http: aiohttp.ClientSession, serve: Serve, reference: bool
) -> None:
    server = await serve()
    long = demo(tokens=5_000, gap_ms=20)
    running = (await _create(http, server, "sk-x", input=long, background=True)).json["id"]
    asked: dict[str, Any] = {"input": "And then?", "previous_response_id": running}
    if reference:
        item = running.replace("resp_", "msg_") + "_0"
        asked = {"input": [{"type": "item_reference", "id": item}]}
    refused = await _create(http, server, "sk-x", **asked)
    assert (refused.status, refused.error["code"]) == (400, "previous_response_in_progress")
    assert refused.error["param"] == ("input.0.id" if reference else "previous_response_id")


async def test_a_session_s_user_is_who_the_session_says(
    http: aiohttp.ClientSession, serve: Serve, opened: OpenSession
) -> None:
    async with scripted_model() as model:
        model.will(Reply([chunk("Hello."), END]))
        server = await serve(model="openai", model_url=model.url, models="demo")
        session = await opened(server, user="zoe")
        for token in (session.token, "sk-x"):
            answer = await _create(http, server, token, input="hi", user="mallory")
            assert answer.status == 200
        assert [told["Evenflow-User"] for told in model.headers] == ["zoe", "mallory"]
