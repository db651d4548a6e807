"""What the end of a session, a key or a tenant leaves open: nothing, by any call, at any task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from evenflow.stream_core.tenants.rotation import rotated
from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Tenant
from evenflow.stream_core.tenants.tenant_store import TenantStore
from tests.integration.chat_client import ChatSession, HttpAnswer, call, demo
from tests.integration.conftest import Serve
from tests.integration.deployment import LocalDeployment
from tests.integration.issuer_server import IssuerServer
from tests.integration.local_server import LocalServer

KEY, NEXT_KEY = "evf_k1_first", "evf_k2_second"
ACME = Tenant(id="acme", keys=(ApiKey.of_text("k1", KEY),))
QUICK, LONG = demo(tokens=2), demo(tokens=2_000, gap_ms=50)
HEARTBEAT_SECONDS, FRESH_SECONDS, SEEN_SECONDS = 25.0, 5.0, 5.0
_RUN = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": []}
CHAT = [{"id": "1", "role": "user", "parts": [{"type": "text", "text": QUICK}]}]
ASKED: dict[str, Any] = {"model": "demo", "messages": [{"role": "user", "content": QUICK}]}


async def opened_with(
    http: aiohttp.ClientSession, server: LocalServer, key: str = KEY, **body: object
) -> ChatSession:
    headers = {"Authorization": f"Bearer {key}"}
    answer = await call(http, "POST", f"{server.http_url}/session", body, headers=headers)
    assert answer.status == 201, answer.body
    return ChatSession(http, answer.json)


def shared(session: ChatSession, token: str, http: aiohttp.ClientSession) -> ChatSession:
    """The session for who has another token of it."""
    opened = {"session_id": session.session_id, "token": token}
    return ChatSession(http, opened | {"ws_url": session.ws_url, "http_url": session.http_url})


class Opened:
    """A session with what was made with its token, in each protocol."""

    def __init__(self, http: aiohttp.ClientSession, session: ChatSession) -> None:
        self._http, self.session = http, session
        self.response_id = self.public_id = self.background_id = self.chat_response_id = ""
        self.share = self.ticket = session

    async def use(self) -> None:
        session = self.session
        body = {"message_id": "m1", "previous_message_id": None, "payload": {"text": QUICK}}
        sent = (await session.call("POST", "/chat/message", body | {"ticket": True})).json
        self.response_id = sent["response_id"]
        await session.poll_whole(self.response_id)
        self.ticket = shared(session, sent["ticket"], self._http)
        made = await session.call("POST", "/v1/responses", {"model": "demo", "input": QUICK})
        self.public_id = made.json["id"]
        asked = {"model": "demo", "input": LONG, "background": True}
        self.background_id = (await session.call("POST", "/v1/responses", asked)).json["id"]
        chat = await session.call("POST", "/api/chat", {"id": "c1", "messages": CHAT})
        self.chat_response_id = chat.headers["x-request-id"]
        made = await session.call("POST", f"/session/{session.session_id}/share", {})
        self.share = shared(session, made.json["token"], self._http)

    async def statuses(self) -> set[tuple[int, str]]:
        """What all calls are told, that read or write anything of it."""
        reads = [
            f"/chat/message/{self.response_id}?timeout_ms=0",
            f"/chat/message/{self.response_id}/events",
            f"/chat/message/{self.response_id}/presence",
            f"/chat/message/{self.response_id}/entries/1/0-0",
            f"/streams/{self.response_id}",
        ]
        whole = [
            f"/session/{self.session.session_id}/messages",
            f"/v1/responses/{self.public_id}",
            f"/v1/responses/{self.public_id}/input_items",
            f"/v1/responses/{self.background_id}?stream=true",
            f"/api/chat/c1/stream?response_id={self.chat_response_id}",
            "/api/chat/c1",
            "/v1/models",
        ]
        writes: list[tuple[str, object]] = [
            ("/v1/chat/completions", ASKED),
            ("/v1/responses", {"model": "demo", "input": QUICK}),
            ("/v1/messages", ASKED | {"max_tokens": 5}),
            ("/api/chat", {"id": "c1", "messages": CHAT}),
            (f"/session/{self.session.session_id}/share", {}),
            ("/chat/message", {"message_id": "m9", "previous_message_id": "m1",
                               "payload": {"text": QUICK}}),
        ]  # fmt: skip
        answers = [
            *[
                await each.call("GET", path)
                for path in reads
                for each in (self.session, self.share, self.ticket)
            ],
            *[
                await each.call("GET", path)
                for path in whole
                for each in (self.session, self.share)
            ],
            *[await self.session.call("POST", path, body) for path, body in writes],
        ]
        return {(answer.status, _code(answer)) for answer in answers}

    async def refused_socket(self, path: str) -> int:
        """The status of a handshake. 101: it is open."""
        headers = {"Authorization": f"Bearer {self.session.token}"}
        try:
            async with self._http.ws_connect(self.session.http_url + path, headers=headers):
                return 101
        except aiohttp.WSServerHandshakeError as refused:
            return refused.status


def _code(answer: HttpAnswer) -> str:
    if answer.status < 400:
        return ""
    return str(answer.json["error"]["code"])


async def put_acme(deployment: LocalDeployment, serve: Serve) -> TenantStore:
    """Give the tenant its record, which all tasks know then. Returns the store."""
    tenants = deployment.stores.tenants
    assert tenants is not None
    await tenants.put(ACME, 0)
    await serve.time_passes(SEEN_SECONDS)
    return tenants


async def test_nothing_of_an_ended_session_is_open_at_any_task(
    deployment: LocalDeployment, serve: Serve, http: aiohttp.ClientSession
) -> None:
    one, other = await deployment.handlers(2)
    await put_acme(deployment, serve)
    here = Opened(http, await opened_with(http, one))
    await here.use()
    there = Opened(http, here.session.at(other))
    vars(there).update(
        response_id=here.response_id,
        public_id=here.public_id,
        background_id=here.background_id,
        chat_response_id=here.chat_response_id,
        share=here.share.at(other),
        ticket=here.ticket.at(other),
    )
    assert (await there.session.poll(here.response_id)).status == 200
    running = one.handler._orchestrator
    assert running.answering == 1
    path = f"/session/{here.session.session_id}"
    assert (await here.session.call("DELETE", path)).status == 204
    assert running.answering == 0, "the background answer, too"
    await serve.time_passes(FRESH_SECONDS)
    for each in (here, there):
        assert await each.statuses() == {(410, "session_ended")}
        for socket in ("/ws", "/v1/responses"):
            assert await each.refused_socket(socket) == 410
        assert (await each.session.call("DELETE", path)).status == 204


@pytest.mark.parametrize("end", ["rotation", "expiry", "removal of the tenant"])
async def test_nothing_that_a_key_opened_is_open_without_it(
    deployment: LocalDeployment, serve: Serve, http: aiohttp.ClientSession, end: str
) -> None:
    server = await deployment.handler()
    tenants = await put_acme(deployment, serve)
    opened = Opened(http, await opened_with(http, server))
    await opened.use()
    assert server.handler._orchestrator.answering == 1
    new = ApiKey.of_text("k2", NEXT_KEY)
    now, overlap = serve.time.wall(), 60.0 if end == "expiry" else 0.0
    if end == "removal of the tenant":
        await tenants.delete("acme", 1)
    else:
        await tenants.put(rotated(ACME, new, now=now, overlap=overlap), 1)
    await serve.time_passes(SEEN_SECONDS + overlap)
    told = (403, "tenant_removed") if "tenant" in end else (401, "token_revoked")
    assert await opened.statuses() == {told}
    for socket in ("/ws", "/v1/responses"):
        assert await opened.refused_socket(socket) == told[0]
    await serve.time_passes(HEARTBEAT_SECONDS + 1)
    assert server.handler._orchestrator.answering == 0
    if end != "removal of the tenant":
        again = await opened_with(http, server, NEXT_KEY, session_id=opened.session.session_id)
        assert (await again.poll(opened.response_id)).status == 200, "the session itself goes on"


async def test_open_sockets_and_streams_end_with_what_opened_them(
    deployment: LocalDeployment, serve: Serve, http: aiohttp.ClientSession
) -> None:
    server = await deployment.handler()
    tenants = await put_acme(deployment, serve)
    session = await opened_with(http, server)
    response_id = (await session.post("m1", None, LONG)).json["response_id"]
    by_key, by_token = [{"Authorization": f"Bearer {given}"} for given in (KEY, session.token)]
    url = server.http_url
    async with (
        http.ws_connect(f"{url}/ws", headers=by_token) as chat,
        http.ws_connect(f"{url}/v1/responses", headers=by_key) as responses,
        session.events(response_id) as events,
    ):
        assert (await chat.receive_json())["type"] == "session.ready"
        assert events.status == 200
        await tenants.delete("acme", 1)
        await serve.time_passes(SEEN_SECONDS)
        for socket in (chat, responses):
            while (message := await socket.receive()).type is aiohttp.WSMsgType.TEXT:
                pass
            assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1008)
        await events.content.read()


async def test_a_task_cancels_an_answer_of_another_one_of_a_tenant_with_a_key(
    deployment: LocalDeployment, serve: Serve, http: aiohttp.ClientSession
) -> None:
    """Tasks call each other without the tenant's key."""
    one, other = await deployment.handlers(2)
    await put_acme(deployment, serve)
    session = await opened_with(http, one)
    response_id = (await session.post("m1", None, LONG)).json["response_id"]
    elsewhere = session.at(other)
    assert (await elsewhere.poll(response_id, timeout_ms=0)).status == 200
    cancelled = await elsewhere.call("POST", f"/chat/message/{response_id}/cancel")
    assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")


@pytest.fixture
def issuer() -> Iterator[IssuerServer]:
    running = IssuerServer()
    yield running
    running.stop()


@pytest.mark.parametrize("claim", ["org", ""])
async def test_an_identity_provider_opens_nothing_of_a_tenant_that_was_removed(
    issuer: IssuerServer,
    deployment: LocalDeployment,
    serve: Serve,
    http: aiohttp.ClientSession,
    claim: str,
) -> None:
    of_claim = {"tenant_claim": claim} if claim else {"tenant": "acme"}
    server = await deployment.handler(issuer.environment(**of_claim))
    tenants = deployment.stores.tenants
    assert tenants is not None
    token, other = (issuer.now_token(org=org) for org in ("acme", "globex"))
    limits = QuotaLimits(requests_per_minute=1)
    await tenants.put(Tenant(id="acme", limits=limits), 0)
    await serve.time_passes(SEEN_SECONDS)
    session = await opened_with(http, server, token)
    asked = {"Authorization": f"Bearer {token}"}
    url = f"{server.http_url}/v1/chat/completions"
    statuses = [(await call(http, "POST", url, ASKED, headers=asked)).status for _ in range(2)]
    assert statuses == [200, 429]
    await tenants.delete("acme", 1)
    await serve.time_passes(SEEN_SECONDS)
    refused = await call(http, "POST", url, ASKED, headers=asked)
    assert (refused.status, refused.error["code"]) == (403, "tenant_removed")
    opening = await call(http, "POST", f"{server.http_url}/session", {}, headers=asked)
    assert (opening.status, opening.error["code"]) == (403, "tenant_removed")
    sent = await session.post("m1", None, QUICK)
    assert (sent.status, sent.error["code"]) == (403, "tenant_removed")
    if claim:
        headers = {"Authorization": f"Bearer {other}"}
        unknown = await call(http, "POST", url, ASKED, headers=headers)
        assert (unknown.status, unknown.error["code"]) == (403, "tenant_unknown")


async def test_a_token_that_only_writes_is_given_no_earlier_answer(
    http: aiohttp.ClientSession, shared_server: LocalServer
) -> None:
    opened = await call(http, "POST", f"{shared_server.http_url}/session", {})
    session = ChatSession(http, opened.json)
    run = {
        **_RUN,
        "messages": [{"id": "1", "role": "user", "content": QUICK}],
        "forwardedProps": {},
    }
    calls: list[tuple[str, object]] = [
        ("/v1/chat/completions", ASKED),
        ("/v1/messages", ASKED | {"max_tokens": 5}),
        ("/api/chat", {"id": "c", "messages": CHAT}),
        ("/agui", run),
        ("/v1/responses", {"model": "demo", "input": QUICK}),
    ]
    for path, body in calls:
        first = await session.call("POST", path, body, headers={"Idempotency-Key": path})
        assert first.status == 200, path
    made = await session.call("POST", "/v1/responses", {"model": "demo", "input": QUICK})
    may = {"session_id": session.session_id, "may": ["write"]}
    opened = await call(http, "POST", f"{shared_server.http_url}/session", may)
    writer = ChatSession(http, opened.json)
    named = {"model": "demo", "input": QUICK, "previous_response_id": made.json["id"]}
    for path, body in (*calls, ("/v1/responses", named)):
        answer = await writer.call("POST", path, body, headers={"Idempotency-Key": path})
        assert answer.status == 403, path
        assert b"no right to read" in answer.body
    answer = await writer.call("POST", "/v1/chat/completions", ASKED)
    assert answer.status == 200, "its own answer is its own"
