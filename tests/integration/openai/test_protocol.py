"""What goes over the wire: streams, whole answers, parameters, errors."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import HttpAnswer, call, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.openai.completions import Completions, asking
from tests.integration.openai.conftest import At

_QUICK = demo(tokens=30, gap_ms=2, seed=5)
_TEXT = "".join(demo_tokens(5, 30))


async def test_a_stream(completions: Completions) -> None:
    streamed = await completions.stream(_QUICK)
    assert (streamed.text, streamed.finish_reason, streamed.done) == (_TEXT, "stop", True)
    assert streamed.chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert streamed.ids[0] == "-1"
    assert [int(index) for index in streamed.ids[1:]] == sorted(
        int(index) for index in streamed.ids[1:]
    )
    assert len({chunk["id"] for chunk in streamed.chunks}) == 1
    assert {chunk["model"] for chunk in streamed.chunks} == {"demo"}
    assert all("usage" not in chunk for chunk in streamed.chunks)
    assert [chunk["choices"][0]["finish_reason"] for chunk in streamed.chunks[:-1]] == [None] * (
        len(streamed.chunks) - 1
    )


async def test_the_usage_comes_last_and_only_when_it_is_asked_for(completions: Completions) -> None:
    streamed = await completions.stream(_QUICK, stream_options={"include_usage": True})
    assert streamed.usage == {"prompt_tokens": 4, "completion_tokens": 30, "total_tokens": 34}
    assert streamed.chunks[-1]["choices"] == []
    assert all(chunk["usage"] is None for chunk in streamed.chunks[:-1])


async def test_a_stream_has_the_head_of_one(completions: Completions) -> None:
    async with completions.open(_QUICK) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["Cache-Control"] == "no-cache, no-transform"
        assert answer.headers["X-Accel-Buffering"] == "no"
        await answer.read()


async def test_a_whole_answer(completions: Completions) -> None:
    answer = await completions.ask(_QUICK)
    assert answer.status == 200
    body = answer.json
    assert body["object"] == "chat.completion"
    (choice,) = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": _TEXT, "refusal": None}
    assert (choice["index"], choice["finish_reason"]) == (0, "stop")
    assert body["usage"] == {"prompt_tokens": 4, "completion_tokens": 30, "total_tokens": 34}


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_the_answer_is_no_longer_than_asked(completions: Completions, name: str) -> None:
    streamed = await completions.stream(_QUICK, **{name: 7})
    assert (streamed.text, streamed.finish_reason) == ("".join(demo_tokens(5, 30)[:7]), "length")


@pytest.mark.parametrize("stop", [demo_tokens(5, 30)[9], ["not there", demo_tokens(5, 30)[9]]])
async def test_the_answer_ends_before_a_stop_text(
    completions: Completions, stop: str | list[str]
) -> None:
    streamed = await completions.stream(_QUICK, stop=stop)
    assert (streamed.text, streamed.finish_reason) == (
        _TEXT[: _TEXT.index(demo_tokens(5, 30)[9])],
        "stop",
    )


async def test_the_conversation_is_what_the_request_brings(completions: Completions) -> None:
    messages = [
        {"role": "developer", "content": "be brief"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "hello "}, {"type": "text", "text": "there"}],
        },
        {
            "role": "assistant",
            "content": "hi",
            "refusal": None,
            "tool_calls": None,
            "annotations": [],
        },
        {"role": "user", "content": _QUICK},
    ]
    answer = (await completions.post({"model": "demo", "messages": messages})).json
    assert answer["choices"][0]["message"]["content"] == _TEXT
    assert answer["usage"]["prompt_tokens"] == 2 + 2 + 1 + 4


async def test_what_asks_for_nothing_is_taken(completions: Completions) -> None:
    neutral = {
        "n": 1,
        "temperature": 0.5,
        "top_p": 1,
        "seed": 7,
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "logit_bias": None,
        "response_format": {"type": "text"},
        "tools": None,
        "user": "u-1",
        "metadata": {"a": "b"},
        "store": False,
    }
    assert (await completions.stream(_QUICK, **neutral)).text == _TEXT


def _refused(answer: HttpAnswer) -> tuple[int, str, str | None]:
    return answer.status, answer.error["code"], answer.error.get("param")


@pytest.mark.parametrize(
    ("parameters", "code", "param"),
    [
        (
            {"tools": [{"type": "function", "function": {}}]},
            "invalid_field",
            "tools.0.function.name",
        ),
        ({"tool_choice": "required"}, "invalid_field", "tool_choice"),
        ({"n": 0}, "invalid_field", "n"),
        ({"n": 129}, "invalid_field", "n"),
        ({"temperature": "hot"}, "invalid_field", "temperature"),
        ({"top_k": float("nan")}, "invalid_field", "top_k"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "unsupported_value", "max_tokens"),
        ({"stop": ["a", ""]}, "invalid_field", "stop.1"),
        ({"seed": 2**64}, "invalid_field", "seed"),
        ({"timeout_ms": 0}, "invalid_field", "timeout_ms"),
        ({"stream_options": {"include_usage": True}}, "unsupported_value", "stream_options"),
        ({"messages": []}, "invalid_field", "messages"),
        (
            {"messages": [{"role": "tool", "content": "x"}]},
            "invalid_field",
            "messages.0.tool_call_id",
        ),
        (
            {"messages": [{"role": "narrator", "content": "x"}]},
            "unsupported_value",
            "messages.0.role",
        ),
        ({"messages": [{"role": "user"}]}, "invalid_field", "messages.0.content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "invalid_field",
            "messages.0.content.0.text",
        ),
    ],
)
async def test_what_is_refused_says_which_parameter(
    completions: Completions, parameters: dict[str, object], code: str, param: str
) -> None:
    assert _refused(await completions.post(asking("hello") | parameters)) == (400, code, param)


async def test_what_is_no_json(completions: Completions) -> None:
    assert _refused(await completions.post(b"{"))[:2] == (400, "invalid_json")


async def test_an_unknown_model(completions: Completions) -> None:
    assert _refused(await completions.post(asking("hello", model="gpt-x"))) == (
        404,
        "model_not_found",
        "model",
    )
    assert _refused(await completions.get("/models/gpt-x")) == (404, "model_not_found", "model")


async def test_the_models(at: At, serve: Serve) -> None:
    completions = at(await serve(models="demo=, gpt-4o-mini, org/other=x"))
    listed = (await completions.get("/models")).json
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["demo", "gpt-4o-mini", "org/other"]
    assert (await completions.get("/models/org/other")).json == listed["data"][2]
    answer = await completions.post(asking(_QUICK, model="gpt-4o-mini"))
    assert (answer.json["model"], answer.json["choices"][0]["message"]["content"]) == (
        "gpt-4o-mini",
        _TEXT,
    )


async def test_the_models_as_anthropic_s_clients_know_them(
    http: aiohttp.ClientSession, serve: Serve
) -> None:
    server = await serve(models="demo=, org/other=x")
    headers = {"anthropic-version": "2023-06-01", "x-api-key": "anything"}

    async def got(path: str) -> Any:
        return (await call(http, "GET", f"{server.http_url}/v1/models{path}", headers=headers)).json

    listed = await got("")
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (
        False,
        "demo",
        "org/other",
    )
    (_, model) = listed["data"]
    assert (model["type"], model["id"], model["display_name"]) == ("model", *["org/other"] * 2)
    assert datetime.fromisoformat(model["created_at"]).tzinfo is not None
    assert await got("/org/other") == model
    refused = await got("/nothing")
    assert (refused["type"], refused["error"]["type"]) == ("error", "not_found_error")


async def test_a_refusal_of_the_model(completions: Completions) -> None:
    for stream in (False, True):
        answer = await completions.post(asking(demo(refuse="true"), stream=stream))
        assert _refused(answer)[:2] == (422, "model_refused")


async def test_a_failure_before_the_first_token_has_a_status_and_no_fallback_answer(
    completions: Completions,
) -> None:
    for stream in (False, True):
        answer = await completions.post(asking(demo(fail_after=0, fail_attempts=9), stream=stream))
        assert _refused(answer)[:2] == (502, "upstream_failed")


async def test_a_failure_in_the_middle_is_told_in_the_stream(completions: Completions) -> None:
    streamed = await completions.stream(
        demo(tokens=9, gap_ms=20, fail_after=5, fail_attempts=9, seed=5)
    )
    assert streamed.error is not None
    assert streamed.error["code"] == "upstream_failed"
    assert (streamed.text, streamed.finish_reason, streamed.done) == (
        "".join(demo_tokens(5, 5)),
        None,
        True,
    )


async def test_a_second_attempt_that_says_the_same_goes_on_where_the_first_broke_off(
    completions: Completions,
) -> None:
    streamed = await completions.stream(demo(tokens=20, gap_ms=20, fail_after=10, seed=5))
    assert (streamed.text, streamed.finish_reason) == ("".join(demo_tokens(5, 20)), "stop")


async def test_tenants_with_keys(at: At, serve: Serve, opened: OpenSession) -> None:
    server = await serve(
        tenant_keys=json.dumps({"acme": "acme-key-0123456789", "zeta": "zeta-key-0123456789"}),
        open_tenant="public",
    )
    assert (await at(server, "zeta-key-0123456789").ask(_QUICK)).status == 200
    assert (await at(server, (await opened(server)).token).ask(_QUICK)).status == 200
    for key in ("sk-anything", "acme-key-012345678", ""):
        refused = await at(server, key).ask(_QUICK)
        assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
        assert refused.headers["WWW-Authenticate"] == "Bearer"
        assert (await at(server, key).get("/models")).status == 401


async def test_a_full_tenant_is_told_when_to_come_again(at: At, serve: Serve) -> None:
    completions = at(await serve(messages_in_flight_per_tenant=1))
    async with completions.open(demo(tokens=500, gap_ms=20)) as answer:
        await answer.content.readline()
        refused = await completions.ask(_QUICK)
        assert (refused.status, refused.error["code"]) == (429, "tenant_in_flight")
        assert int(refused.headers["Retry-After"]) >= 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"demo","messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"model":"demo","messages":[{"role":"user","content":"x"}],"temperature":NaN}',
        b'{"model":"demo","messages":[{"role":"user","content":"x"}],"seed":' + b"9" * 5000 + b"}",
        b'{"model":"demo","messages":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"model":"demo","messages":[{"role":"user","content":"x"}],"stop":["\\udfff"]}',
        b"[]",
        b"",
    ],
)
async def test_hostile_bodies(completions: Completions, body: bytes) -> None:
    refused = await completions.post(body)
    assert refused.status == 400
    assert refused.error["code"] in ("invalid_json", "invalid_field")


async def test_a_timeout_beyond_all_bounds_is_none(completions: Completions) -> None:
    body = (
        b'{"model":"demo","messages":[{"role":"user","content":"#demo tokens=2"}],"timeout_ms":1%b}'
        % (b"0" * 400)
    )
    assert (await completions.post(body)).status == 200
    assert (
        await completions.post(asking("#demo tokens=2"), Evenflow_Timeout_Ms="9" * 18)
    ).status == 200
