"""Whose a chat is, which requests are one, and how long an answer is told again."""

from __future__ import annotations

from typing import Any

import aiohttp

from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.interfaces.interface_client import InterfaceClient, hear
from tests.integration.local_server import LocalServer
from tests.integration.scripted_model import END, Reply, chunk, scripted_model

_LONG = demo(tokens=900, gap_ms=20)
_SHORT = demo(tokens=2)


async def test_a_session_s_chats_are_its_own(
    http: aiohttp.ClientSession, shared_server: LocalServer, opened: OpenSession
) -> None:
    tokens = [(await opened()).token for _ in range(2)]
    one, other = (InterfaceClient(http, shared_server, token) for token in tokens)
    async with one.send("mine", _LONG) as answer:
        heard = await hear(answer, characters=10)
        async with other.resume("mine") as nothing:
            assert nothing.status == 204
        assert (await other.stop("mine")).json == {"success": True}
        await hear(answer, heard, characters=40)
        await one.stop("mine")


async def test_requests_with_one_key_are_one(
    http: aiohttp.ClientSession, shared_server: LocalServer, opened: OpenSession
) -> None:
    client = InterfaceClient(http, shared_server, (await opened()).token)
    ids = []
    for headers in ({"Idempotency_Key": "k1"}, {"Idempotency_Key": "k1"}, {}, {}):
        async with client.send("keyed", _SHORT, **headers) as answer:
            ids.append((await hear(answer)).message_id)
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


async def test_an_answer_that_has_just_ended_is_told_once_more(
    http: aiohttp.ClientSession, serve: Serve
) -> None:
    server = await serve()
    client = InterfaceClient(http, server)
    async with client.send("ended", _SHORT) as answer:
        told = await hear(answer)
    async with client.resume("ended") as again:
        heard = await hear(again)
    assert (heard.text, heard.message_id) == (told.text, told.message_id)
    await serve.time_passes(11)
    async with client.resume("ended") as nothing:
        assert nothing.status == 204


async def test_wrong_requests_are_refused_by_name(
    http: aiohttp.ClientSession, shared_server: LocalServer
) -> None:
    client = InterfaceClient(http, shared_server)
    for chat_id, headers, param in (
        ("", {}, "id"),
        ("c1", {"Last_Event_ID": "3"}, "Last-Event-ID"),
        ("c1", {"Idempotency_Key": "k" * 256}, "Idempotency-Key"),
        ("c1", {"Last_Event_ID": "nothing"}, "Last-Event-ID"),
    ):
        async with client.send(chat_id, _SHORT, **headers) as refused:
            assert refused.status == 400
            assert (await refused.json())["error"]["param"] == param
    async with client.resume("c1") as nothing:
        assert nothing.status == 204, "nothing was generated"
    async with client.resume("c1", Last_Event_ID="3") as refused:
        assert (await refused.json())["error"]["param"] == "Last-Event-ID"
    async with client.resume("c1", "rsp_of_nobody") as unknown:
        assert unknown.status == 404


def _said(message_id: str, role: str, text: str) -> dict[str, Any]:
    return {"id": message_id, "role": role, "parts": [{"type": "text", "text": text}]}


async def test_what_was_said_is_read_with_the_answer_as_far_as_it_has_come(
    http: aiohttp.ClientSession, shared_server: LocalServer, opened: OpenSession
) -> None:
    one, other = [InterfaceClient(http, shared_server, (await opened()).token) for _ in range(2)]
    assert (await one.messages("read")).json == {"messages": [], "nextBefore": None}
    async with one.send("read", _LONG) as answer:
        heard = await hear(answer, characters=40)
        question, begun = (await one.messages("read")).json["messages"]
        assert question == _said("u1", "user", _LONG)
        assert (begun["id"], begun["role"]) == (heard.message_id, "assistant")
        (step, text) = begun["parts"]
        assert (step, text["state"]) == ({"type": "step-start"}, "streaming")
        assert text["text"].startswith(heard.text)
        assert (await other.messages("read")).json["messages"] == []
        await one.stop("read")
    (_, ended) = (await one.messages("read")).json["messages"]
    assert ended["parts"][1]["state"] == "done"


async def test_a_long_chat_is_read_page_by_page(
    http: aiohttp.ClientSession, shared_server: LocalServer, opened: OpenSession
) -> None:
    client = InterfaceClient(http, shared_server, (await opened()).token)
    before = [_said(f"m{number}", "user", f"{number}?") for number in range(3)]
    async with client.send("pages", _SHORT, before) as answer:
        heard = await hear(answer)
    page = (await client.messages("pages", "?limit=2")).json
    assert [each["id"] for each in page["messages"]] == ["u1", heard.message_id]
    assert page["nextBefore"] == "u1"
    page = (await client.messages("pages", "?before=u1")).json
    assert page == {"messages": before, "nextBefore": None}
    unknown = await client.messages("pages", "?before=unknown")
    assert (unknown.status, unknown.json["error"]["code"]) == (404, "message_not_found")
    wrong = await client.messages("pages", "?limit=0")
    assert (wrong.status, wrong.json["error"]["param"]) == (400, "limit")


async def test_a_run_without_messages_is_empty_and_the_next_one_is_answered(
    http: aiohttp.ClientSession, serve: Serve
) -> None:
    async with scripted_model() as model:
        model.will(Reply([chunk("yes"), END]))
        client = InterfaceClient(http, await serve(model="openai", model_url=model.url))
        async with client.run("r1", None) as answer:
            assert answer.content_type == "text/event-stream"
            assert (await hear(answer)).types == ["RUN_STARTED", "RUN_FINISHED"]
        assert not model.requests
        async with client.run("r1", "hello") as answer:
            assert (await hear(answer)).text == "yes"
