"""The cookie for `EventSource`: it opens the events of one response, and nothing else."""

from __future__ import annotations

from http.cookies import Morsel, SimpleCookie
from typing import Any

import aiohttp
import pytest

from evenflow.fargate_handler.gateway.http.cookies import EVENTS_COOKIE as NAME
from tests.integration.chat_client import ChatSession, HttpAnswer, call, chat_message, demo
from tests.integration.conftest import OpenSession, Serve

_TEXT = demo(tokens=20, gap_ms=1)


async def post(
    session: ChatSession, message_id: str, previous: str | None, **fields: object
) -> HttpAnswer:
    answer = await session.call(
        "POST", "/chat/message", {**chat_message(message_id, previous, _TEXT), **fields}
    )
    assert answer.status == 202
    return answer


def cookies_of(answer: HttpAnswer) -> dict[str, Morsel[str]]:
    """By name, as they were set."""
    headers: Any = answer.headers
    return {
        name: morsel
        for line in headers.getall("Set-Cookie")
        for name, morsel in SimpleCookie(line).items()
    }


async def ask(
    http: aiohttp.ClientSession,
    session: ChatSession,
    method: str,
    path: str,
    cookie: str,
    **headers: str,
) -> HttpAnswer:
    """A call that has the cookie and no token."""
    sent = {"Cookie": f"{NAME}={cookie}", **headers}
    return await call(
        http, method, session.http_url + path, b"{}" if method == "POST" else None, headers=sent
    )


async def test_it_is_set_for_who_asks_for_it_and_for_that_path_alone(
    opened: OpenSession, serve: Serve
) -> None:
    for secure in (False, True):
        session = await opened(await serve(cookie_secure=secure))
        asked = await post(session, "m1", None, cookie=True)
        path = f"/chat/message/{asked.json['response_id']}/events"
        cookie = cookies_of(asked)[NAME]
        assert (cookie["path"], cookie["samesite"], cookie["httponly"]) == (path, "Strict", True)
        assert bool(cookie["secure"]) is secure
        assert cookie["expires"]
        assert not cookie["domain"]
        assert session.token not in cookie.value
        assert NAME not in cookies_of(await post(session, "m2", "m1"))
        assert NAME not in cookies_of(await post(session, "m3", "m2", cookie=False))


async def test_it_opens_the_events_of_its_response(
    http: aiohttp.ClientSession, opened: OpenSession
) -> None:
    session = await opened()
    asked = await post(session, "m1", None, cookie=True)
    cookie = cookies_of(asked)[NAME].value
    path = f"/chat/message/{asked.json['response_id']}/events"
    answer = await ask(http, session, "GET", path, cookie)
    assert (answer.status, b"chat.response.completed" in answer.body) == (200, True)
    # The same message again, over any transport at first: the same response, and a new cookie for
    # it.
    again = await post(session, "m1", None, cookie=True)
    assert again.json["response_id"] == asked.json["response_id"]
    assert (await ask(http, session, "GET", path, cookies_of(again)[NAME].value)).status == 200


async def test_it_opens_nothing_else(http: aiohttp.ClientSession, opened: OpenSession) -> None:
    session = await opened()
    asked = await post(session, "m1", None, cookie=True)
    other = (await post(session, "m2", "m1")).json["response_id"]
    response_id, cookie = asked.json["response_id"], cookies_of(asked)[NAME].value
    calls = (
        ("GET", f"/chat/message/{other}/events", "token_invalid"),
        ("GET", f"/chat/message/{response_id}", "token_missing"),
        ("POST", f"/chat/message/{response_id}/cancel", "token_missing"),
        ("POST", "/chat/message", "token_missing"),
    )
    for method, path, code in calls:
        answer = await ask(http, session, method, path, cookie)
        assert (answer.status, answer.error["code"]) == (401, code), path
    # As a token it reads the response too, and a session's token is no such cookie.
    bearer = {"Authorization": f"Bearer {cookie}"}
    for method, path, status in (
        ("GET", f"/chat/message/{response_id}", 200),
        ("GET", f"/chat/message/{other}", 401),
        ("POST", f"/chat/message/{response_id}/cancel", 403),
    ):
        answer = await call(http, method, session.http_url + path, headers=bearer)
        assert answer.status == status, path
    answer = await ask(http, session, "GET", f"/chat/message/{response_id}/events", session.token)
    assert (answer.status, answer.error["code"]) == (401, "token_invalid")
    # Where both come, the token counts.
    wrong = await ask(
        http,
        session,
        "GET",
        f"/chat/message/{response_id}/events",
        cookie,
        Authorization="Bearer x",
    )
    assert wrong.status == 401


async def test_it_ends_with_the_token_that_asked_for_it(
    http: aiohttp.ClientSession, opened: OpenSession, serve: Serve
) -> None:
    session = await opened(await serve(session_token_ttl_seconds=5))
    asked = await post(session, "m1", None, cookie=True)
    cookie = cookies_of(asked)[NAME].value
    path = f"/chat/message/{asked.json['response_id']}/events"
    assert (await ask(http, session, "GET", path, cookie)).status == 200
    await serve.time_passes(5.1)
    answer = await ask(http, session, "GET", path, cookie)
    assert (answer.status, answer.error["code"]) == (401, "token_expired")


@pytest.mark.parametrize("value", ["", "x", "a.b.c", '"quoted"'])
async def test_what_is_no_cookie_of_ours(
    http: aiohttp.ClientSession, opened: OpenSession, value: str
) -> None:
    session = await opened()
    response_id = (await post(session, "m1", None)).json["response_id"]
    answer = await ask(http, session, "GET", f"/chat/message/{response_id}/events", value)
    assert answer.status == 401


async def test_a_ticket_for_others_reads_over_every_transport(
    http: aiohttp.ClientSession, opened: OpenSession
) -> None:
    session = await opened()
    assert "ticket" not in (await post(session, "m1", None)).json
    asked = (await post(session, "m2", "m1", ticket=True)).json
    response_id, path = asked["response_id"], f"/chat/message/{asked['response_id']}"
    session.token = asked["ticket"]
    events = await session.call("GET", f"{path}/events")
    assert (events.status, b"chat.response.completed" in events.body) == (200, True)
    whole = (await session.call("GET", path)).json["full_text"]
    entries = await session.call("GET", f"{path}/entries/1/0-0")
    assert whole.startswith(entries.json["frames"][0]["delta"])
    assert "Set-Cookie" not in entries.headers
    async with session.connect() as connection:
        await connection.send("response.resume", response_id=response_id, after=-1)
        assert (await connection.next_of("chat.response.completed"))["response_id"] == response_id
    refused = await session.call("POST", "/chat/message", {"message_id": "m3"})
    assert (refused.status, refused.error["code"]) == (403, "not_permitted")
