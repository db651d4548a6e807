"""Whose a chat is, which requests are one, and how long an answer is told again."""

from __future__ import annotations

import aiohttp

from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.interfaces.interface_client import InterfaceClient, hear
from tests.integration.local_server import LocalServer

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
