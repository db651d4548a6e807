"""Bounds of tenants and users at a real server, over sockets and event streams."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from websockets.exceptions import InvalidStatus

from evenflow.stream_core.tenants.tenant import NO_LIMITS, QuotaLimits, Tenant
from tests.integration.chat_client import ChatSession, call, chat_message, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.deployment import LocalDeployment
from tests.integration.local_server import LocalServer

_QUICK = demo(tokens=2)
_LONG = demo(tokens=5000, gap_ms=20)

Bounded = Callable[..., Awaitable[LocalServer]]


@pytest.fixture
def bounded(serve: Serve) -> Bounded:
    """Start a server where all are one tenant, which has these bounds."""

    async def start(
        limits: QuotaLimits = NO_LIMITS,
        user_limits: QuotaLimits = NO_LIMITS,
        *,
        shadow: bool = False,
    ) -> LocalServer:
        server = await serve()
        record = Tenant(id="public", limits=limits, user_limits=user_limits, shadow=shadow)
        server.handler._tenants.replace([record])
        return server

    return start


async def test_a_user_that_sends_too_much_is_told_until_when_and_others_go_on(
    bounded: Bounded, opened: OpenSession, serve: Serve
) -> None:
    # One more is allowed each 15 s, so a slow machine changes nothing.
    server = await bounded(user_limits=QuotaLimits(requests_per_minute=4))
    ann, bob = await opened(server, user="ann"), await opened(server, user="bob")
    async with ann.connect() as socket:
        last = None
        for number in range(4):
            await socket.ask(f"m{number}", last, demo(tokens=0))
            last = f"m{number}"
        await socket.send("chat.message", **chat_message("one more", last, _QUICK))
        throttle = await socket.next_of("throttle")
        assert throttle["message_id"] == "one more"
        assert 0 < throttle["retry_after_ms"] <= 15_000
        error = checked_error(throttle)
        assert (error["code"], error["limit"]) == ("user_limit", "user.requests_per_minute")
        async with bob.connect() as other:
            await other.ask("m1", None, _QUICK)
        await serve.time_passes(throttle["retry_after_ms"] / 1000)
        answer = await socket.ask("one more", last, _QUICK)
        assert answer.end is not None
    assert await server.metric('messages_refused_total{code="user_limit"}') == 1


async def test_a_socket_is_told_once_a_minute_that_little_is_left(
    bounded: Bounded, opened: OpenSession
) -> None:
    server = await bounded(QuotaLimits(requests_per_minute=10, tokens_per_minute=10**9))
    async with (await opened(server)).connect() as socket:
        last = None
        for number in range(10):
            await socket.ask(f"m{number}", last, demo(tokens=0))
            last = f"m{number}"
        hints = [frame for frame in socket.other if frame["type"] == "near_limit"]
    assert [(hint["limit"], hint["most"], hint["remaining"]) for hint in hints] == [
        ("tenant.requests_per_minute", 10, 1)
    ]
    assert 50_000 < hints[0]["resets_in_ms"] <= 54_000


async def _refused_handshake(session: ChatSession) -> dict[str, str]:
    with pytest.raises(InvalidStatus) as refused:
        async with session.connect():
            pass
    response = refused.value.response
    assert response.status_code == 429
    assert response.headers["Retry-After"] == "1"
    assert response.body is not None
    return checked_error(json.loads(response.body))


async def test_connections_are_bounded_and_one_that_closes_makes_room(
    bounded: Bounded, opened: OpenSession, http: aiohttp.ClientSession
) -> None:
    server = await bounded(QuotaLimits(connections=2))
    session, other = await opened(server), await opened(server)
    async with session.connect() as socket:
        start = await socket.message("m1", None, _LONG)
        events = f"{server.http_url}/chat/message/{start['response_id']}/events"
        headers = {"Authorization": f"Bearer {session.token}"}
        async with http.get(events, headers=headers) as stream:
            assert stream.status == 200
            await stream.content.readline()
            error = await _refused_handshake(other)
            assert (error["code"], error["limit"]) == ("tenant_limit", "tenant.connections")
            async with http.get(events, headers=headers) as refused:
                assert refused.status == 429
            # Who replaces a connection needs no more.
            async with session.connect(query="?replace=1") as again:
                await again.send("response.cancel", response_id=start["response_id"])
                await stream.read()
        await server.until_metric("ws_active_connections", 0)
    async with other.connect(), other.connect():
        assert (await _refused_handshake(session))["code"] == "tenant_limit"


async def test_who_reads_by_a_share_takes_no_connection_of_its_tenant(
    bounded: Bounded, opened: OpenSession, http: aiohttp.ClientSession
) -> None:
    server = await bounded(QuotaLimits(connections=1))
    session = await opened(server)
    posted = await session.post("m1", None, _LONG)
    share = await session.call("POST", f"/session/{session.session_id}/share")
    reader = ChatSession(http, {**share.json, "session_id": session.session_id}, None)
    response_id = posted.json["response_id"]
    async with reader.connect(), reader.connect(), reader.events(response_id) as stream:
        assert stream.status == 200
        async with session.connect() as socket:
            assert (await _refused_handshake(session))["code"] == "tenant_limit"
            await socket.send("response.cancel", response_id=response_id)


async def test_who_reads_by_a_share_is_not_counted_to_the_user_that_it_names(
    bounded: Bounded, opened: OpenSession, http: aiohttp.ClientSession
) -> None:
    server = await bounded(user_limits=QuotaLimits(connections=1))
    ann, bob = await opened(server, user="ann"), await opened(server, user="bob")
    share = await bob.call("POST", f"/session/{bob.session_id}/share", {"for": "ann"})
    reader = ChatSession(http, {**share.json, "session_id": bob.session_id}, None)
    async with reader.connect(), ann.connect():
        assert (await _refused_handshake(ann))["code"] == "user_limit"


async def test_a_page_whose_session_names_no_user_can_not_use_up_another_s_bounds(
    bounded: Bounded, opened: OpenSession, http: aiohttp.ClientSession
) -> None:
    server = await bounded(user_limits=QuotaLimits(requests_per_minute=1))
    nobody, ann = await opened(server), await opened(server, user="ann")
    asked = {"model": "demo", "messages": [{"role": "user", "content": _QUICK}], "user": "ann"}
    for _ in range(2):
        assert (await nobody.call("POST", "/v1/chat/completions", asked)).status == 200
    assert (await ann.call("POST", "/v1/chat/completions", asked)).status == 200


async def test_a_tenant_in_shadow_is_counted_and_not_refused(
    bounded: Bounded, opened: OpenSession
) -> None:
    server = await bounded(QuotaLimits(requests_per_minute=1, connections=1), shadow=True)
    session = await opened(server)
    async with session.connect() as socket, session.connect():
        await socket.ask("m1", None, _QUICK)
        await socket.ask("m2", "m1", _QUICK)
    assert await server.metric('messages_shadow_refusals_total{code="tenant_limit"}') == 2
    assert 'messages_refused_total{code="tenant_limit"}' not in await server.metrics_page()
    await server.until_logged("tenant.requests_per_minute would have refused it")
    await server.until_logged("tenant.connections would have refused it")


async def test_a_bound_holds_over_two_tasks_within_a_second(
    deployment: LocalDeployment, http: aiohttp.ClientSession, serve: Serve
) -> None:
    servers = await deployment.handlers(2)
    for server in servers:
        record = Tenant(id="public", limits=QuotaLimits(requests_per_minute=60))
        server.handler._tenants.replace([record])

    async def ask(server: LocalServer) -> int:
        body = {"model": "demo", "messages": [{"role": "user", "content": _QUICK}]}
        answer = await call(http, "POST", f"{server.http_url}/v1/chat/completions", body)
        assert answer.status == 200
        return int(answer.headers["x-ratelimit-remaining-requests"])

    for server in servers:
        assert await ask(server) == 59
    await serve.time_passes(4)
    for _ in range(30):
        await ask(servers[0])
    await serve.time_passes(1.1)
    # One came here, and some have drained.
    assert 60 - 31 <= await ask(servers[1]) <= 60 - 31 + 5


async def test_a_user_s_bound_holds_over_two_tasks_once_a_quarter_of_it_is_used(
    deployment: LocalDeployment, http: aiohttp.ClientSession, serve: Serve
) -> None:
    servers = await deployment.handlers(2)
    for server in servers:
        record = Tenant(id="public", user_limits=QuotaLimits(requests_per_minute=20))
        server.handler._tenants.replace([record])

    async def ask(server: LocalServer) -> int:
        said = [{"role": "user", "content": _QUICK}]
        body = {"model": "demo", "messages": said, "user": "ann"}
        answer = await call(http, "POST", f"{server.http_url}/v1/chat/completions", body)
        return answer.status

    for server in servers:
        assert [await ask(server) for _ in range(6)] == [200] * 6
    await serve.time_passes(4)
    assert [await ask(servers[0]) for _ in range(12)] == [200] * 12
    await serve.time_passes(1.1)
    # Alone it would have room for all of these.
    answers = [await ask(servers[1]) for _ in range(8)]
    assert answers.count(429) >= 3
