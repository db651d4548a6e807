"""What a request of the Responses API may go on from, and for whom it asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from tests.integration.chat_client import HttpAnswer, call, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.scripted_model import DONE, END, Reply, chunk, scripted_model


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


_HIDDEN = {"type": "reasoning.encrypted", "index": 0, "data": "c2ln"}
_SIGNED = {"google": {"thought_signature": "c2ln"}}
_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": "{}"},
    "extra_content": _SIGNED,
}


async def test_what_the_model_s_server_gave_goes_on_with_the_conversation(
    http: aiohttp.ClientSession, serve: Serve, tmp_path: Path
) -> None:
    async with scripted_model() as model:
        model.will(
            Reply(
                [
                    chunk(delta={"reasoning": "hm"}),
                    chunk(delta={"tool_calls": [{"index": 0, **_CALL}]}),
                    chunk(delta={"reasoning_details": [_HIDDEN]}),
                    chunk(finish_reason="tool_calls") + DONE,
                ]
            ),
            Reply([chunk("Done."), END]),
        )
        settings: dict[str, Any] = {"model": "openai", "model_url": model.url, "models": "demo"}
        settings |= {"store": "sqlite", "store_path": str(tmp_path / "evenflow.db")}
        server, other = [await serve(**settings) for _ in range(2)]
        first = (await _create(http, server, "sk-x", input="hi")).json["id"]
        given = [{"type": "function_call_output", "call_id": "c1", "output": "7"}]
        answer = await _create(http, other, "sk-x", input=given, previous_response_id=first)
        assert answer.json["status"] == "completed"
        assert model.requests[-1]["messages"][1] == {
            "role": "assistant",
            "content": None,
            "reasoning": "hm",
            "reasoning_details": [_HIDDEN],
            "tool_calls": [_CALL],
        }


async def test_an_item_may_be_named_again_and_again_within_the_bounds_of_a_request(
    http: aiohttp.ClientSession, serve: Serve
) -> None:
    server = await serve(request_bytes=65_536)
    made = (await _create(http, server, "sk-x", input=demo(tokens=400))).json
    (item,) = made["output"]
    references = [{"type": "item_reference", "id": item["id"]}]
    question = [{"role": "user", "content": "And?"}]
    assert (await _create(http, server, "sk-x", input=references + question)).status == 200
    refused = await _create(http, server, "sk-x", input=references * 1_000 + question)
    assert (refused.status, refused.error["code"]) == (413, "message_too_large")


async def test_a_conversation_that_goes_on_keeps_the_bounds_of_one_request(
    http: aiohttp.ClientSession, serve: Serve
) -> None:
    server = await serve(messages_per_request=16)
    said = [{"role": "user", "content": "a"}] * 12
    first = (await _create(http, server, "sk-x", input=said)).json["id"]
    refused = await _create(http, server, "sk-x", input=said, previous_response_id=first)
    assert (refused.status, refused.error["code"]) == (400, "array_above_max_length")
    assert refused.error["param"] == "previous_response_id"


async def test_a_stored_request_is_parsed_once_however_often_it_is_read(
    http: aiohttp.ClientSession, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve()
    said = [{"role": "user", "content": str(number)} for number in range(200)]
    made = (await _create(http, server, "sk-x", input=said)).json["id"]
    parsed: list[str] = []
    whole = WholeRequest.from_text

    def noting(text: str) -> WholeRequest:
        parsed.append(text)
        return whole(text)

    monkeypatch.setattr(WholeRequest, "from_text", noting)
    url, headers = f"{server.http_url}/v1/responses/{made}", {"Authorization": "Bearer sk-x"}
    for _ in range(3):
        page = await call(http, "GET", f"{url}/input_items?limit=1", headers=headers)
        assert [item["content"][0]["text"] for item in page.json["data"]] == ["199"]
        assert (await call(http, "GET", url, headers=headers)).json["status"] == "completed"
    assert len(parsed) == 1
    assert (await call(http, "DELETE", url, headers=headers)).status == 200
    assert (await call(http, "GET", url, headers=headers)).status == 404
