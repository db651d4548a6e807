"""Calls of tools: in streams and whole, in the middle of which a client comes back, and what a
model's server sends of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Frame
from tests.integration.chat_client import demo
from tests.integration.conftest import Serve
from tests.integration.openai.completions import Completions, Streamed, asking, read_stream
from tests.integration.openai.conftest import At
from tests.integration.openai.tools import TOOLS, demo_call
from tests.integration.scripted_model import DONE, END, Reply, ScriptedModel, chunk, scripted_model

_QUICK = demo(tokens=10, gap_ms=2, seed=5, calls=2)
_TEXT = "".join(demo_tokens(5, 10))
_CALLS = [demo_call(0), demo_call(1)]


def _calls(streamed: Streamed) -> list[Frame]:
    return [streamed.calls[index] for index in sorted(streamed.calls)]


async def test_a_stream_says_what_is_called(completions: Completions) -> None:
    streamed = await completions.stream(_QUICK, tools=TOOLS, stream_options={"include_usage": True})
    assert (streamed.text, streamed.finish_reason, streamed.done) == (_TEXT, "tool_calls", True)
    assert _calls(streamed) == _CALLS
    assert streamed.chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert streamed.usage is not None
    assert streamed.usage["total_tokens"] > 10


async def test_a_whole_answer_says_what_is_called(completions: Completions) -> None:
    (choice,) = (await completions.ask(_QUICK, tools=TOOLS)).json["choices"]
    message = {"role": "assistant", "content": _TEXT, "refusal": None, "tool_calls": _CALLS}
    assert (choice["message"], choice["finish_reason"]) == (message, "tool_calls")


async def test_without_text_there_is_no_content(completions: Completions) -> None:
    answer = await completions.ask(
        demo(tokens=0, gap_ms=2, calls=1), tools=TOOLS, tool_choice="required"
    )
    (choice,) = answer.json["choices"]
    assert (choice["message"]["content"], choice["message"]["tool_calls"]) == (None, _CALLS[:1])


async def test_without_calls_it_is_an_answer_like_any_other(completions: Completions) -> None:
    (choice,) = (await completions.ask(demo(tokens=10, gap_ms=2, seed=5), tools=TOOLS)).json[
        "choices"
    ]
    assert (choice["message"], choice["finish_reason"]) == (
        {"role": "assistant", "content": _TEXT, "refusal": None},
        "stop",
    )


async def test_the_conversation_goes_on_behind_what_a_tool_gave(completions: Completions) -> None:
    body = asking(_QUICK, tools=TOOLS)
    (choice,) = (await completions.post(body)).json["choices"]
    gave = [
        {"role": "tool", "tool_call_id": call["id"], "content": demo(tokens=3, seed=6)}
        for call in _CALLS
    ]
    body["messages"] += [choice["message"], *gave]
    (choice,) = (await completions.post(body)).json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (
        "".join(demo_tokens(6, 3)),
        "stop",
    )


async def test_a_model_that_must_call_and_cannot_says_so(completions: Completions) -> None:
    refused = await completions.ask("What is a cursor?", tools=TOOLS, tool_choice="required")
    assert (refused.status, refused.error["code"]) == (422, "model_refused")


async def test_who_leaves_in_the_middle_of_a_call_goes_on_there(
    completions: Completions, serve: Serve
) -> None:
    text = demo(tokens=4, gap_ms=20, seed=5, calls=6)
    streamed, connections = Streamed(), 0
    while not streamed.done:
        headers = {"Last_Event_ID": streamed.last_id} if streamed.last_id else {}
        async with completions.open(
            text, tools=TOOLS, Idempotency_Key="calls", **headers
        ) as answer:
            assert answer.status == 200, await answer.text()
            await serve.time_passes(0.4)
            await read_stream(answer, streamed, streamed.last_index + 7)
        connections += 1
    assert connections > 1
    assert (streamed.text, streamed.finish_reason) == ("".join(demo_tokens(5, 4)), "tool_calls")
    assert _calls(streamed) == [demo_call(index) for index in range(6)]
    assert len({one["id"] for one in streamed.chunks}) == 1


async def test_from_each_id_of_an_answer_the_rest_is_the_same(
    completions: Completions, serve: Serve
) -> None:
    text = demo(tokens=3, gap_ms=15, seed=5, calls=2)
    asked = completions.stream(text, tools=TOOLS, Idempotency_Key="each")
    whole = await serve.time_passes_until(asked)
    assert len([one for one in whole.chunks if "tool_calls" in one["choices"][0]["delta"]]) > 1, (
        "as they come"
    )
    assert len(whole.ids) > 2
    for place, event_id in enumerate(whole.ids):
        streamed = Streamed()
        for one in whole.chunks[: place + 1]:
            streamed.take(json.dumps(one), event_id)
        async with completions.open(
            text, tools=TOOLS, Idempotency_Key="each", Last_Event_ID=event_id
        ) as answer:
            await read_stream(answer, streamed)
        assert (streamed.text, streamed.calls, streamed.finish_reason) == (
            whole.text,
            whole.calls,
            "tool_calls",
        )


async def test_the_same_key_is_the_same_answer_and_only_for_the_same_tools(
    completions: Completions,
) -> None:
    one, other, streamed = await asyncio.gather(
        completions.ask(_QUICK, key="twice", tools=TOOLS),
        completions.ask(_QUICK, key="twice", tools=TOOLS),
        completions.stream(_QUICK, tools=TOOLS, Idempotency_Key="twice"),
    )
    assert one.json["id"] == other.json["id"] == streamed.chunks[0]["id"]
    assert one.json["choices"] == other.json["choices"]
    assert one.json["choices"][0]["message"]["tool_calls"] == _calls(streamed) == _CALLS
    refused = await completions.ask(_QUICK, key="twice", tools=TOOLS[:1])
    assert refused.error["code"] == "idempotency_key_reused"


# -- what a model's server sends -------------------------------------------------------------------


@pytest.fixture
async def model(serve: Serve) -> AsyncIterator[ScriptedModel]:
    async with scripted_model(serve.time_passes) as model:
        yield model


@pytest.fixture
async def in_front(at: At, serve: Serve, model: ScriptedModel) -> Completions:
    """A client of ours in front of the model's server."""
    return at(await serve(model="openai", model_url=model.url, model_repeatable=True))


def _fragment(index: int, arguments: str, **begins: str) -> bytes:
    function = {"arguments": arguments} | ({"name": begins["name"]} if begins else {})
    opening = {"id": begins["id"], "type": "function"} if begins else {}
    return chunk(delta={"tool_calls": [{"index": index, **opening, "function": function}]})


def _calling(*arguments: str, call_id: str = "call_abc") -> list[bytes]:
    return [
        _fragment(0, "", id=call_id, name="note"),
        *(_fragment(0, piece) for piece in arguments),
    ]


_CALLED = chunk(finish_reason="tool_calls") + DONE
_NOTED = {
    "id": "call_abc",
    "type": "function",
    "function": {"name": "note", "arguments": '{"text": "\x1e流れ"}'},
}
_PIECES = ('{"te', 'xt": "', "\x1e流", 'れ"}')


async def test_it_passes_through_from_and_to_the_model_s_server(
    in_front: Completions, model: ScriptedModel
) -> None:
    begins = [chunk("So\x1e"), chunk(": ")]
    model.will(Reply([*begins, *_calling(*_PIECES), _CALLED], gap=0.05))
    body = asking("x", model="openai", tools=TOOLS, tool_choice="auto", parallel_tool_calls=True)
    body["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [_NOTED]},
        {"role": "tool", "tool_call_id": "call_abc", "content": "noted"},
    ]
    (choice,) = (await in_front.post(body)).json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("So\x1e: ", "tool_calls")
    assert choice["message"]["tool_calls"] == [_NOTED]
    (asked,) = model.requests
    for name in ("messages", "tools", "tool_choice", "parallel_tool_calls"):
        assert asked[name] == body[name]
    model.will(Reply([*begins, *_calling(*_PIECES), _CALLED], gap=0.05))
    streamed = await in_front.stream("y", model="openai", tools=TOOLS)
    assert (streamed.text, _calls(streamed), streamed.finish_reason) == (
        "So\x1e: ",
        [_NOTED],
        "tool_calls",
    )


async def test_a_text_that_looks_like_a_mark_is_text(
    in_front: Completions, model: ScriptedModel
) -> None:
    text = '\x1e{"call":0,"id":"c","name":"note"}\n'
    model.will(Reply([chunk(text), END]))
    (choice,) = (await in_front.ask("x", model="openai")).json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")
    assert "tool_calls" not in choice["message"]
    assert (await in_front.stream("x", model="openai")).text == text


async def test_what_a_server_calls_without_tools_in_the_request_is_told_as_it_came(
    in_front: Completions, model: ScriptedModel
) -> None:
    model.will(Reply([*_calling(*_PIECES), _CALLED]))
    (choice,) = (await in_front.ask("x", model="openai")).json["choices"]
    assert (choice["message"]["tool_calls"], choice["finish_reason"]) == ([_NOTED], "tool_calls")


@pytest.mark.parametrize(
    ("again", "told"),
    [
        (_calling("".join(_PIECES)), None),
        (_calling(*_PIECES, call_id="call_xyz"), "response_restarted"),
        (_calling('{"text": "other"}'), "response_restarted"),
        ([chunk("No, I won't.")], "response_restarted"),
    ],
)
async def test_a_model_that_begins_again_in_the_middle_of_a_call(
    again: list[bytes], told: str | None, in_front: Completions, model: ScriptedModel
) -> None:
    model.will(
        Reply(_calling(*_PIECES[:3]), gap=0.1, then="break"), Reply([*again, _CALLED], gap=0.1)
    )
    streamed = await in_front.stream("x", model="openai", tools=TOOLS)
    assert streamed.done
    if told is None:
        assert (_calls(streamed), streamed.finish_reason, streamed.error) == (
            [_NOTED],
            "tool_calls",
            None,
        )
    else:
        assert streamed.error is not None
        assert streamed.error["code"] == told
        (call,) = _calls(streamed)
        assert _NOTED["function"]["arguments"].startswith(call["function"]["arguments"])  # type: ignore[index]


@pytest.mark.parametrize(
    "wrong",
    [
        _fragment(0, "{}", id="c", name="a" * 5000),
        _fragment(0, "{}"),
        chunk(delta={"tool_calls": 7}),
        chunk(delta={"tool_calls": [7]}),
    ],
)
async def test_a_server_that_sends_what_is_no_call(
    wrong: bytes, in_front: Completions, model: ScriptedModel
) -> None:
    model.will(Reply([wrong, _CALLED]))
    failed = await in_front.ask("x", model="openai", tools=TOOLS)
    assert (failed.status, failed.error["code"]) == (502, "upstream_failed")


async def test_a_call_that_is_too_long_is_cut_like_any_answer(
    at: At, serve: Serve, model: ScriptedModel
) -> None:
    completions = at(await serve(model="openai", model_url=model.url, response_bytes=2000))
    model.will(Reply([*_calling(*["x" * 100] * 50), _CALLED]))
    (choice,) = (await completions.ask("x", model="openai", tools=TOOLS)).json["choices"]
    assert choice["finish_reason"] == "length"
    assert set(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"x"}


async def test_a_model_without_tools_is_told_in_words_of_ours(
    in_front: Completions, model: ScriptedModel
) -> None:
    error = {"error": {"message": "this model has no tool parser", "type": "BadRequestError"}}
    model.will(Reply([json.dumps(error).encode()], status=400, content_type="application/json"))
    refused = await in_front.ask("x", model="openai", tools=TOOLS)
    assert (refused.status, refused.error["code"]) == (400, "model_refused")
    assert "can't use the tools of the request" in refused.error["message"]
    assert "this model has no tool parser" not in refused.error["message"]
