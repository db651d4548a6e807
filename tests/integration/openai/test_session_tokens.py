"""A session's token in the place of a key: for a browser, with the limits and the keys of that
session alone.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

from tests.integration.chat_client import HttpAnswer, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.conftest import At

_LONG = demo(tokens=5000, gap_ms=20)
_QUICK = demo(tokens=2)


def _refused(answer: HttpAnswer) -> tuple[int, str]:
    assert int(answer.headers["Retry-After"]) >= 1
    return answer.status, answer.error["code"]


async def test_a_session_has_only_so_many_answers_at_once(
    at: At, serve: Serve, opened: OpenSession
) -> None:
    server = await serve(messages_in_flight_per_session=2)
    one, other = [at(server, (await opened(server)).token) for _ in range(2)]
    async with AsyncExitStack() as streams:
        for key in ("a", "b"):
            answer = await streams.enter_async_context(one.open(_LONG, Idempotency_Key=key))
            assert answer.status == 200
            await answer.content.readline()
        for new in (None, "c"):
            assert _refused(await one.ask(_QUICK, key=new)) == (429, "session_in_flight")
        assert (await other.ask(_QUICK)).status == 200
        for _ in range(3):
            answer = await streams.enter_async_context(at(server).open(_LONG))
            assert answer.status == 200


async def test_who_leaves_makes_room(at: At, serve: Serve, opened: OpenSession) -> None:
    server = await serve(messages_in_flight_per_session=1)
    completions = at(server, (await opened(server)).token)
    async with completions.open(_LONG) as answer:
        await answer.content.readline()
        assert _refused(await completions.ask(_QUICK)) == (429, "session_in_flight")
    await server.until_metric("generations_running", 0)
    assert (await completions.ask(_QUICK)).status == 200


async def test_a_session_s_requests_come_only_so_fast(
    at: At, serve: Serve, opened: OpenSession
) -> None:
    server = await serve(messages_per_second=0.1)  # one, and ten seconds until the next
    completions = at(server, (await opened(server)).token)
    assert (await completions.ask(_QUICK)).status == 200
    assert _refused(await completions.ask(_QUICK)) == (429, "rate_limited")
    assert (await at(server, (await opened(server)).token).ask(_QUICK)).status == 200
    for _ in range(3):
        assert (await at(server).ask(_QUICK)).status == 200


async def test_the_keys_of_sessions_are_their_own(
    at: At, shared_server: LocalServer, opened: OpenSession
) -> None:
    one, other = [at(shared_server, (await opened(shared_server)).token) for _ in range(2)]
    answers = [
        await client.ask(_QUICK, key="mine") for client in (one, other, at(shared_server), one)
    ]
    ids = [answer.json["id"] for answer in answers]
    assert ids[0] == ids[3]
    assert len(set(ids)) == 3
    assert (await other.ask(demo(tokens=3), key="taken")).status == 200
    assert (await one.ask(_QUICK, key="taken")).status == 200
