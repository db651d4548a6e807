"""Tools over `/ws`, `/realtime` and HTTP: the client runs them, and the same answer goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.fargate_handler.token_sources.demo.source import demo_arguments
from evenflow.stream_core.log.entries import Part, PartKind
from evenflow.stream_core.session.tool_steps import CANCELLED_CALL
from tests.integration.answer import Answer, Frame
from tests.integration.chat_client import COMPACT, V1, Connection, checked_error, demo
from tests.integration.conftest import OpenSession
from tests.integration.deployment import LocalDeployment
from tests.integration.realtime_client import OTHER_PATH, realtime

TOOL = {"type": "function", "function": {"name": "look_up"}}
_ONE_CALL = demo(tokens=3, gap_ms=1, seed=4, calls=1)
_GOES_ON = demo(tokens=4, gap_ms=1, seed=9)
"""A result by which the demo model knows what to say."""
_BEFORE, _AFTER = "".join(demo_tokens(4, 3)), "".join(demo_tokens(9, 4))


async def ask(connection: Connection, text: str = _ONE_CALL) -> str:
    """Send a message with the tool. Returns the response's id."""
    payload = {"text": text, "tools": [TOOL]}
    await connection.send("chat.message", message_id="m1", payload=payload)
    start = await connection.next_of("chat.response.start")
    response_id: str = start["response_id"]
    return response_id


async def calls_of(connection: Connection, response_id: str, count: int = 1) -> list[str]:
    """Read until the model has made its calls. Returns their ids."""
    made: list[str] = []
    ended = 0
    while ended < count:
        frame = await connection.receive()
        assert frame.get("response_id") == response_id
        if frame.get("kind") == "call":
            made.append(frame["id"])
        ended += frame.get("kind") == "call_end"
    return made


def results(answer: Answer) -> list[tuple[str, str]]:
    """The results in an answer."""
    parts = [part for part in answer.contents if isinstance(part, Part)]
    return [(part.id, part.text) for part in parts if part.kind is PartKind.RESULT]


@pytest.mark.parametrize("protocol", [V1, COMPACT])
async def test_a_result_continues_the_same_answer(opened: OpenSession, protocol: str) -> None:
    session = await opened()
    async with session.connect(protocol) as connection:
        response_id = await ask(connection)
        (call_id,) = await calls_of(connection, response_id)
        await connection.send(
            "tool.result", response_id=response_id, call_id=call_id, text=_GOES_ON
        )
        answer = await connection.whole(response_id)
    assert answer.text == _BEFORE + _AFTER
    assert answer.contents == [
        _BEFORE,
        Part(PartKind.CALL, id=call_id, name="look_up"),
        Part(PartKind.ARGUMENTS, demo_arguments(0)),
        Part(PartKind.CALL_END),
        Part(PartKind.RESULT, _GOES_ON, id=call_id, name="look_up"),
        _AFTER,
    ]
    assert answer.finish_reason == "stop"
    page = (await session.call("GET", f"/session/{session.session_id}/messages")).json
    assert [part["kind"] for part in page["messages"][0]["answer"]["parts"]] == [
        "call",
        "arguments",
        "call_end",
        "result",
    ]


async def test_the_call_is_read_again_after_a_reconnect(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        response_id = await ask(connection)
        before = await calls_of(connection, response_id)
        last = connection.answers[response_id].last
    async with session.connect() as other:
        assert other.ready["responses"][0]["status"] == "streaming"
        answer = await other.resume(response_id, -1)
        while answer.last < last:
            await other.receive()
        made = [part for part in answer.contents if isinstance(part, Part)]
        assert [part.id for part in made if part.kind is PartKind.CALL] == before
        for text in (_GOES_ON, "another"):
            await other.send("tool.result", response_id=response_id, call_id=before[0], text=text)
        await other.whole(response_id)
    assert results(answer) == [(before[0], _GOES_ON)]
    assert answer.text == _BEFORE + _AFTER
    assert other.other == [other.ready], "a result that comes twice is no error"


async def test_one_call_is_cancelled_and_the_other_answered(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        response_id = await ask(connection, demo(tokens=0, calls=2))
        first, second = await calls_of(connection, response_id, 2)
        await connection.send("tool.cancel", response_id=response_id, call_id=first)
        await connection.send("tool.result", response_id=response_id, call_id=second, text=_GOES_ON)
        answer = await connection.whole(response_id)
    assert results(answer) == [(first, CANCELLED_CALL), (second, _GOES_ON)]
    assert answer.text == _AFTER


async def refusal_of(connection: Connection, response_id: str, call_id: str) -> Frame:
    """The error of a result."""
    await connection.send("tool.result", response_id=response_id, call_id=call_id, text="7")
    frame = await connection.next_of("error")
    assert frame["response_id"] == response_id
    return checked_error(frame)


async def test_a_result_for_no_open_call_is_refused(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        response_id = await ask(connection)
        (call_id,) = await calls_of(connection, response_id)
        wrong = await refusal_of(connection, response_id, "call_of_another")
        assert (wrong["code"], wrong["param"]) == ("call_not_open", "call_id")
        unknown = await refusal_of(connection, "rsp_unknown", call_id)
        assert unknown["code"] == "response_not_found"
        await connection.send("response.cancel", response_id=response_id)
        answer = await connection.whole(response_id)
        assert answer.finish_reason == "cancelled"
        late = await refusal_of(connection, response_id, call_id)
        assert late["code"] == "call_not_open"
    assert results(answer) == []


async def test_wrong_tools_are_refused_by_name(opened: OpenSession) -> None:
    session = await opened()
    body = {"text": "hi", "tools": [{"type": "web_search"}]}
    async with session.connect() as connection:
        await connection.send("chat.message", message_id="m1", payload=body)
        refused = await connection.next_of("error")
        assert refused["message_id"] == "m1"
        assert checked_error(refused)["param"] == "payload.tools.0.type"
    async with realtime(session) as spoken:
        await spoken.send("start", id="m1", **body)
        assert checked_error(await spoken.next_of("error"))["param"] == "tools.0.type"
    posted = await session.call("POST", "/chat/message", {"message_id": "m1", "payload": body})
    assert (posted.status, posted.error["param"]) == (400, "payload.tools.0.type")


async def test_the_same_in_realtime_s_words(opened: OpenSession) -> None:
    session = await opened()
    conversation = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": _ONE_CALL},
    ]
    asked: dict[str, Any] = {"service_class": "batch", "slo_ttft_ms": 800}
    async with realtime(session, path=OTHER_PATH) as connection:
        await connection.send("start", id="m1", messages=conversation, tools=[TOOL], **asked)
        response_id = (await connection.next_of("started"))["response_id"]
        while (frame := await connection.receive()).get("kind") != "call_end":
            pass
        assert frame["type"] == "event"
        call_id = next(part["id"] for part in connection.spoken[response_id].parts if "id" in part)
        await connection.send(
            "tool.result", response_id=response_id, call_id=call_id, text=_GOES_ON
        )
        spoken = await connection.whole(response_id)
    assert spoken.text == _BEFORE + _AFTER
    page = (await session.call("GET", f"/session/{session.session_id}/messages")).json
    assert page["messages"][0]["text"] == _ONE_CALL


async def test_over_http_alone(opened: OpenSession) -> None:
    session = await opened()
    payload = {"text": _ONE_CALL, "tools": [TOOL]}
    posted = await session.call("POST", "/chat/message", {"message_id": "m1", "payload": payload})
    response_id = posted.json["response_id"]
    answer = Answer()
    async with asyncio.timeout(10):
        while Part(PartKind.CALL_END) not in answer.contents:
            answer.take_poll((await session.poll(response_id, answer.last + 1, 1_000)).json)
    (call,) = [part for part in answer.contents if isinstance(part, Part) and part.id]
    path = f"/chat/message/{response_id}/tool-results"
    given = await session.call("POST", path, {"call_id": call.id, "text": _GOES_ON})
    assert (given.status, given.json["response_id"]) == (200, response_id)
    _, text, _ = await session.poll_whole(response_id)
    assert text == _BEFORE + _AFTER
    assert (await session.call("POST", path, {"call_id": call.id, "text": "x"})).status == 200
    late = await session.call("POST", path, {"call_id": "other"})
    assert (late.status, late.error["code"]) == (409, "call_not_open")


async def test_a_result_to_another_task_and_after_a_hand_over(
    deployment: LocalDeployment, opened: OpenSession
) -> None:
    here, there = await deployment.handlers(2, drain_seconds=0.5)
    session = await opened(here)
    async with session.connect() as connection:
        response_id = await ask(connection)
        (first,) = await calls_of(connection, response_id)
    async with session.at(there).connect() as connection:
        answer = await connection.resume(response_id, -1)
        await calls_of(connection, response_id)
        wrong = await refusal_of(connection, response_id, "call_of_another")
        assert wrong["code"] == "call_not_open"
        # The tool's result makes the demo model call once more.
        await connection.send("tool.result", response_id=response_id, call_id=first, text=_ONE_CALL)
        (second,) = await calls_of(connection, response_id)
        here.leave()
        await here.ended()
        await connection.send("tool.result", response_id=response_id, call_id=second, text=_GOES_ON)
        await deployment.serve.time_passes_until(connection.whole(response_id))
    assert answer.text == _BEFORE + _BEFORE + _AFTER
    assert results(answer) == [(first, _ONE_CALL), (second, _GOES_ON)]
