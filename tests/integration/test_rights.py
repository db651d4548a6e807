"""What a token lacks the right to do is refused by every call and every frame, and changes nothing.

A route or a frame that is in no row here fails the first tests.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from evenflow.stream_core.api_documents.websocket_endpoints import members
from evenflow.stream_core.auth.rights import Right
from evenflow.stream_core.http import routes
from evenflow.stream_core.http.routes import ROUTES, Route
from evenflow.stream_core.protocols.evenflow.messages import ClientMessage
from evenflow.stream_core.protocols.realtime.dialect import RealtimeClientMessage
from tests.integration.answer import Frame
from tests.integration.chat_client import COMPACT, V1, ChatSession, chat_message, demo
from tests.integration.conftest import Serve
from tests.integration.realtime_client import REALTIME, realtime_url

_ASKED: dict[str, Any] = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}
_RUN = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": [], "state": {}}
_UI = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}

CHANGING: dict[Route, tuple[Right, Any]] = {
    routes.END_SESSION: (Right.CANCEL, None),
    routes.SHARE: (Right.WRITE, {}),
    routes.POST_MESSAGE: (Right.WRITE, chat_message("m2", "m1", "hi")),
    routes.CANCEL: (Right.CANCEL, None),
    routes.TOOL_RESULT: (Right.WRITE, {"call_id": "c", "text": "x"}),
    routes.COMPLETIONS: (Right.WRITE, _ASKED),
    routes.CREATE_RESPONSE: (Right.WRITE, {"model": "demo", "input": "hi"}),
    routes.DELETE_RESPONSE: (Right.CANCEL, None),
    routes.CANCEL_RESPONSE: (Right.CANCEL, None),
    routes.ANTHROPIC_MESSAGES: (Right.WRITE, _ASKED | {"max_tokens": 5}),
    routes.CHAT: (Right.WRITE, {"id": "c", "messages": [_UI]}),
    routes.CHAT_STOP: (Right.CANCEL, None),
    routes.RUN: (Right.WRITE, _RUN | {"forwardedProps": {}}),
    routes.RUN_STOP: (Right.CANCEL, {"threadId": "t", "runId": "r"}),
}
"""Calls that write or cancel, with the right that each needs and a body that it takes."""
READING = {
    *(routes.MESSAGES, routes.EVENTS, routes.PRESENCE, routes.ENTRIES, routes.POLL),
    *(routes.LIST_MODELS, routes.GET_MODEL, routes.GET_RESPONSE, routes.INPUT_ITEMS),
    *(routes.STREAM, routes.CHAT_MESSAGES, routes.CHAT_STREAM, routes.USAGE),
}
WITHOUT_TOKEN = {
    *(routes.OPEN_SESSION, routes.OPENAPI, routes.ASYNCAPI),
    *(routes.INDEX, routes.ASSET, routes.CLIENT_MODULE, routes.ELEMENT_MODULE),
    *(routes.HEALTH, routes.METRICS, routes.DRAIN, routes.OPERATOR),
}
SOCKETS = {
    *(routes.WEBSOCKET, routes.REALTIME, routes.OPENAI_REALTIME, routes.RESPONSES_WEBSOCKET),
}

CHANGING_FRAMES: dict[str, tuple[Right, Frame]] = {
    "chat.message": (Right.WRITE, chat_message("m2", "m1", "hi")),
    "response.cancel": (Right.CANCEL, {}),
    "tool.result": (Right.WRITE, {"call_id": "c", "text": "x"}),
    "tool.cancel": (Right.WRITE, {"call_id": "c"}),
    "start": (Right.WRITE, {"id": "m2", "previous": "m1", "text": "hi"}),
    "cancel": (Right.CANCEL, {}),
}
READING_FRAMES = {
    *("response.resume", "response.pause", "response.continue", "response.ack"),
    *("response.credit", "resume", "pause", "credit", "ping"),
    *("presence.subscribe", "presence.unsubscribe"),
}


def test_every_route_is_in_a_row() -> None:
    groups = [set(CHANGING), READING, WITHOUT_TOKEN, SOCKETS]
    assert set().union(*groups) == set(ROUTES)
    assert sum(map(len, groups)) == len(ROUTES)
    assert all(route.method == "GET" for route in READING | SOCKETS)


def test_every_client_s_frame_is_in_a_row() -> None:
    models = members(ClientMessage) + members(RealtimeClientMessage)
    types = {model.model_fields["type"].annotation.__args__[0] for model in models}  # type: ignore[union-attr]
    assert set(CHANGING_FRAMES) | READING_FRAMES == types
    assert not set(CHANGING_FRAMES) & READING_FRAMES


@dataclass
class Shared:
    """A session whose answer runs, and tokens that may not do everything with it."""

    session: ChatSession
    response_id: str
    tokens: dict[str, str]

    def with_token(self, http: aiohttp.ClientSession, kind: str) -> ChatSession:
        """The session, for who has this token."""
        of_session = self.session
        opened = {
            "session_id": of_session.session_id,
            "token": self.tokens[kind],
            "ws_url": of_session.ws_url,
            "http_url": of_session.http_url,
        }
        return ChatSession(http, opened)

    async def check_unchanged(self) -> None:
        """Check that its only answer still runs."""
        page = (await self.session.call("GET", f"/session/{self.session.session_id}/messages")).json
        assert [each["status"] for each in page["messages"]] == ["streaming"]


KINDS = ("share of the session", "share of the response", "session's token that only reads")


@pytest.fixture
async def shared(serve: Serve, http: aiohttp.ClientSession) -> AsyncIterator[Shared]:
    """An answer that runs, until the test is over."""
    server = await serve()
    opened = await http.post(f"{server.http_url}/session", json={})
    session = ChatSession(http, await opened.json())
    asked = await session.post("m1", None, demo(tokens=2000, gap_ms=50, seed=7))
    response_id: str = asked.json["response_id"]
    await session.poll(response_id)
    share = f"/session/{session.session_id}/share"
    tokens = {}
    for kind, body in zip(KINDS, ({}, {"response_id": response_id}), strict=False):
        answer = await session.call("POST", share, body)
        assert answer.status == 201
        assert answer.json.keys() == {"token", "expires_at", "ws_url", "http_url"}
        tokens[kind] = answer.json["token"]
    named = {"session_id": session.session_id, "may": ["read"]}
    opened = await http.post(f"{server.http_url}/session", json=named)
    tokens[KINDS[2]] = (await opened.json())["token"]
    yield Shared(session, response_id, tokens)
    await session.call("POST", f"/chat/message/{response_id}/cancel")


@pytest.mark.parametrize("kind", KINDS)
async def test_no_call_writes_or_cancels_without_the_right(
    http: aiohttp.ClientSession, shared: Shared, kind: str
) -> None:
    reader = shared.with_token(http, kind)
    names = {"session_id": reader.session_id, "response_id": shared.response_id, "chat_id": "c"}
    for route, (right, body) in CHANGING.items():
        answer = await reader.call(route.method, route.with_names(**names), body)
        error = answer.json["error"]
        told = (answer.status, error["type"], error.get("code", "not_permitted"))
        assert told == (403, "permission_error", "not_permitted"), (route, answer.body)
        assert f"no right to {right}" in error["message"]
    await shared.check_unchanged()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", [V1, COMPACT, REALTIME])
async def test_no_frame_writes_or_cancels_without_the_right(
    http: aiohttp.ClientSession, shared: Shared, kind: str, protocol: str
) -> None:
    reader = shared.with_token(http, kind)
    path = realtime_url(reader) if protocol == REALTIME else reader.ws_url
    names = [Subprotocol(protocol), Subprotocol(f"bearer.{reader.token}")]
    own = {"start", "cancel"} if protocol == REALTIME else {"chat.message", "response.cancel"}
    own |= {"tool.result", "tool.cancel"}
    async with connect(path, subprotocols=names, proxy=None) as socket:
        ready = json.loads(await socket.recv())
        assert [each["response_id"] for each in ready["responses"]] == [shared.response_id]
        for each in sorted(own):
            right, fields = CHANGING_FRAMES[each]
            frame = {"type": each, **fields}
            if each not in ("chat.message", "start"):
                frame["response_id"] = shared.response_id
            await socket.send(json.dumps(frame))
            refused = json.loads(await socket.recv())
            assert (refused["type"], refused["error"]["code"]) == ("error", "not_permitted")
            assert f"no right to {right}" in refused["error"]["message"]
            await socket.send('{"type": "ping"}')
            assert json.loads(await socket.recv()) == {"type": "pong"}
    await shared.check_unchanged()


@pytest.mark.parametrize("kind", KINDS)
async def test_openai_s_websocket_is_not_opened_without_the_right(
    http: aiohttp.ClientSession, shared: Shared, kind: str
) -> None:
    reader = shared.with_token(http, kind)
    bearer = {"Authorization": f"Bearer {reader.token}"}
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await http.ws_connect(f"{reader.http_url}/v1/responses", headers=bearer)
    assert refused.value.status == 403


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_shared_is_read_over_every_transport(
    http: aiohttp.ClientSession, shared: Shared, kind: str
) -> None:
    reader, path = shared.with_token(http, kind), f"/chat/message/{shared.response_id}"
    async with reader.connect() as watching:
        await watching.resume(shared.response_id, -1)
        assert (await watching.reach(shared.response_id, 2)).text
    async with reader.events(shared.response_id) as events:
        assert events.status == 200
        assert b"delta" in await events.content.readline() + await events.content.readline()
    assert (await reader.call("GET", path)).json["new_text"]
    assert (await reader.call("GET", f"/streams/{shared.response_id}")).status == 200
    page = await reader.call("GET", f"/session/{reader.session_id}/messages")
    assert page.status == (401 if kind == KINDS[1] else 200)


async def test_a_share_of_one_response_reads_no_other(
    http: aiohttp.ClientSession, shared: Shared
) -> None:
    other = (await shared.session.post("m2", "m1", demo(tokens=1))).json["response_id"]
    reader = shared.with_token(http, KINDS[1])
    answer = await reader.call("GET", f"/chat/message/{other}")
    assert (answer.status, answer.error["code"]) == (401, "token_invalid")
    async with reader.connect() as watching:
        await watching.send("response.resume", response_id=other, after=-1)
        assert (await watching.next_of("error"))["error"]["code"] == "token_invalid"


async def test_a_token_without_the_right_to_read_is_told_nothing(
    http: aiohttp.ClientSession, shared: Shared
) -> None:
    named = {"session_id": shared.session.session_id, "may": ["write", "cancel"]}
    opened = await (await http.post(f"{shared.session.http_url}/session", json=named)).json()
    writer = ChatSession(http, opened)
    names = {"session_id": writer.session_id, "response_id": shared.response_id, "chat_id": "c"}
    names |= {"epoch": "1", "first": "0", "last": "0", "model": "demo"}
    for route in READING:
        answer = await writer.call("GET", route.with_names(**names))
        assert (answer.status, answer.error["code"]) == (403, "not_permitted"), route
    bearer = {"Authorization": f"Bearer {writer.token}"}
    for socket in (writer.ws_url, realtime_url(writer)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(socket, headers=bearer)
        assert refused.value.status == 403
    for asked in ({"ticket": True}, {"cookie": True}):
        body = chat_message("m2", "m1", "hi") | asked
        answer = await writer.call("POST", "/chat/message", body)
        assert (answer.status, answer.error["code"]) == (403, "not_permitted")
    share = await writer.call("POST", f"/session/{writer.session_id}/share", {})
    assert (share.status, share.error["code"]) == (403, "not_permitted")
    await shared.check_unchanged()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"ttl_seconds": 86_401}, 400, "invalid_field"),
        ({"ttl_seconds": 0}, 400, "invalid_field"),
        ({"response_id": "rsp_unknown"}, 404, "response_not_found"),
        ({"for": ""}, 400, "invalid_field"),
    ],
)
async def test_a_share_that_is_wrong_is_refused(
    shared: Shared, body: Frame, status: int, code: str
) -> None:
    path = f"/session/{shared.session.session_id}/share"
    answer = await shared.session.call("POST", path, body)
    assert (answer.status, answer.error["code"]) == (status, code)


async def test_who_watches_takes_no_place_of_the_session_and_closes_none_of_it(
    http: aiohttp.ClientSession, serve: Serve
) -> None:
    server = await serve(connections_per_session=1)
    opened = await http.post(f"{server.http_url}/session", json={})
    session = ChatSession(http, await opened.json())
    token = (await session.call("POST", f"/session/{session.session_id}/share")).json["token"]
    watcher = Shared(session, "", {"share": token}).with_token(http, "share")
    bearer = {"Authorization": f"Bearer {token}"}
    async with watcher.connect() as first, watcher.connect(), session.connect() as own:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(f"{session.ws_url}?replace=1", headers=bearer)
        assert refused.value.status == 403
        await own.ask("m1", None, demo(tokens=1))
        assert (await first.next_of("session.message"))["message_id"] == "m1"
        async with session.connect(query="?replace=1"):
            await first.send("ping")
            assert await first.next_of("pong")
