"""Values of the wrong kind in requests of every protocol: refused by name, in its shape of errors.

`python -m tests.fuzz` looks for more of them.
"""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from tests.integration.chat_client import HttpAnswer, call, checked_error
from tests.integration.local_server import LocalServer

_TOO_LARGE = 10**30
"""Python reads it. As JSON of 64 bits it can't be written."""
_CALL = {"type": "tool-look", "toolCallId": "c1", "state": "output-available"}


def _response(**given: object) -> dict[str, Any]:
    return {"model": "demo", "input": "hi", **given}


def _chat(part: dict[str, Any]) -> dict[str, Any]:
    return {"id": "odd", "messages": [{"role": "assistant", "parts": [_CALL | part]}]}


def _run(**given: object) -> dict[str, Any]:
    messages = [{"id": "u1", "role": "user", "content": "hi"}]
    return {"threadId": "odd", "runId": "r", "messages": messages, **given}


async def _post(
    http: aiohttp.ClientSession, server: LocalServer, path: str, body: object
) -> HttpAnswer:
    given = json.dumps(body).encode()
    return await call(http, "POST", server.http_url + path, given, headers={})


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/responses", _response(input=[{"role": {}, "content": "hi"}]), "input.0.role"),
        ("/v1/responses", _response(input=[{"type": [], "call_id": "c"}]), "input.0.type"),
        ("/v1/responses", _response(tools=[{"type": {}, "name": "f"}]), "tools.0"),
        ("/v1/responses", _response(text={"format": {"type": "text", "x": _TOO_LARGE}}), "text"),
        ("/v1/responses", _response(reasoning={"x": _TOO_LARGE}), "reasoning"),
        ("/v1/responses", _response(tool_choice={"type": "x" * 300, "n": _TOO_LARGE}), None),
        ("/api/chat", _chat({"input": _TOO_LARGE, "output": 1}), "messages.0.parts.0.input"),
        ("/api/chat", _chat({"input": {}, "output": [_TOO_LARGE]}), "messages.0.parts.0.output"),
        ("/api/chat", _chat({"input": {}, "output": float("nan")}), "messages.0.parts.0.output"),
        ("/agui", _run(forwardedProps={"more": _TOO_LARGE}), "forwardedProps"),
        (
            "/agui",
            _run(messages=[{"id": "u1", "role": "user", "content": "hi", "more": _TOO_LARGE}]),
            "messages",
        ),
    ],
)
async def test_they_are_refused_by_name(
    http: aiohttp.ClientSession,
    shared_server: LocalServer,
    path: str,
    body: dict[str, Any],
    param: str | None,
) -> None:
    answer = await _post(http, shared_server, path, body)
    assert (answer.status, answer.error["type"]) == (400, "invalid_request_error")
    assert param in (None, answer.error["param"])


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("PUT", "/v1/messages", {}, 405),
        ("POST", "/v1/messages", {"Expect": "much"}, 417),
        ("POST", "/v1/messages/count_tokens", {"Expect": "much"}, 417),
        ("POST", "/v1/messages", {"Host": "elsewhere.example"}, 403),
        ("POST", "/v1/messages", {"Origin": "https://elsewhere.example"}, 415),
    ],
)
async def test_what_no_endpoint_answers_has_the_shape_of_anthropic_s_errors(
    http: aiohttp.ClientSession,
    shared_server: LocalServer,
    method: str,
    path: str,
    headers: dict[str, str],
    status: int,
) -> None:
    url = shared_server.http_url + path
    async with http.request(method, url, data=b"{}", headers=headers) as got:
        body = await got.json()
        request_id = got.headers["request-id"]
    assert (got.status, body["type"], body["request_id"]) == (status, "error", request_id)
    assert checked_error(body)["message"]
