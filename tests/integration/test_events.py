"""Server-sent events: the same log, an id on every event, and a way back after a break."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Answer
from tests.integration.chat_client import ChatSession, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.event_stream import read_answer, read_events
from tests.integration.raw_websocket import RawWebSocket

_QUICK = demo(tokens=30, gap_ms=5, seed=3)
_QUICK_TEXT = "".join(demo_tokens(3, 30))

pytestmark = pytest.mark.usefixtures("hurry")


async def test_every_event_has_its_id_and_the_last_one_says_so(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _QUICK)).json["response_id"]
    answer = Answer()
    async with session.events(response_id) as stream:
        assert stream.status == 200
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert stream.headers["Cache-Control"] == "no-cache, no-transform"
        assert stream.headers["X-Accel-Buffering"] == "no"
        events = await read_answer(stream, answer)
    assert answer.text == _QUICK_TEXT
    assert events[-1].id == f"{answer.last}.end"
    assert events[-1].frame["type"] == "chat.response.completed"
    async with session.events(response_id, Last_Event_ID=events[-1].id) as stream:
        assert stream.status == 204
    whole = Answer()
    async with session.events(response_id) as stream:
        await read_answer(stream, whole)
    assert whole.text == _QUICK_TEXT


async def test_last_event_id_resumes(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, demo(tokens=80, gap_ms=10, seed=5))).json[
        "response_id"
    ]
    answer = Answer()
    for until in (2, 5):
        async with session.events(
            response_id, **({"Last_Event_ID": str(answer.last)} if answer.last >= 0 else {})
        ) as stream:
            await read_answer(stream, answer, until)
    async with session.events(f"{response_id}", Last_Event_ID=str(answer.last)) as stream:
        await read_answer(stream, answer)
    assert answer.text == "".join(demo_tokens(5, 80))


async def test_after_in_the_query_resumes_and_the_header_wins(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _QUICK)).json["response_id"]
    await session.poll_whole(response_id)
    whole, tail = Answer(), Answer(0)
    async with session.events(response_id) as stream:
        await read_answer(stream, whole)
    path = f"/chat/message/{response_id}/events"
    for query, headers, first in (
        ("?after=0", {}, 1),
        ("?after=-1", {}, 0),
        ("?after=-1", {"Last-Event-ID": "1"}, 2),
    ):
        told = (await session.call("GET", path + query, headers=headers)).body.decode()
        assert f'"from":{first}}}' in told or f'"index":{first}}}' in told
    assert tail.last == 0


@pytest.mark.parametrize(
    "event_id", ["x", "-2", "-5", "1.x", "1.5.5", "1.-5", "999", "999.end", "x.end", "1 2"]
)
async def test_a_wrong_last_event_id(opened: OpenSession, event_id: str) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _QUICK)).json["response_id"]
    await session.poll_whole(response_id)
    answer = await session.call(
        "GET", f"/chat/message/{response_id}/events", headers={"Last-Event-ID": event_id}
    )
    assert (answer.status, answer.error["code"]) == (400, "invalid_field")


async def test_a_last_event_id_of_an_owner_that_nobody_knows_loses_nothing(
    opened: OpenSession,
) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _QUICK)).json["response_id"]
    for _ in ("while it is answered", "when it has ended"):
        answer = await session.call(
            "GET", f"/chat/message/{response_id}/events", headers={"Last-Event-ID": "1.5"}
        )
        assert (answer.status, answer.error["code"]) == (400, "invalid_field")
        assert (await session.poll_whole(response_id))[1] == _QUICK_TEXT


@pytest.mark.parametrize("after", ["x", "-2", "999", "1.5"])
async def test_a_wrong_after(opened: OpenSession, after: str) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _QUICK)).json["response_id"]
    answer = await session.call("GET", f"/chat/message/{response_id}/events?after={after}")
    assert (answer.status, answer.error["code"]) == (400, "invalid_field")


@pytest.mark.parametrize("query", ["after=x", "epoch=null", "joined=x"])
async def test_a_wrong_query_is_refused_beside_a_right_header(
    opened: OpenSession, query: str
) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _QUICK)).json["response_id"]
    path = f"/chat/message/{response_id}/events?{query}"
    answer = await session.call("GET", path, headers={"Last-Event-ID": "-1"})
    assert (answer.status, answer.error["param"]) == (400, query.partition("=")[0])


async def test_silence_is_filled_with_comments(
    opened: OpenSession, serve: Serve, hurry: asyncio.Task[None]
) -> None:
    hurry.cancel()
    session = await opened(await serve(sse_heartbeat_seconds=0.1))
    text = demo(first_token_ms=350, tokens=2, gap_ms=350, seed=6)
    response_id = (await session.post("m1", None, text)).json["response_id"]
    async with session.events(response_id) as stream:
        kinds = ["comment" if event.comment else event.kind async for event in read_events(stream)]
    first = kinds.index("chat.response.delta")
    assert first >= 1
    assert set(kinds[:first]) == {"comment"}
    assert "comment" in kinds[first:]
    assert kinds[-1] == "chat.response.completed"


def _without_data(body: str) -> list[str]:
    """What httpx-sse takes for an event, and has no data: `retry` alone is one to it, and it
    keeps the last `id`.
    """
    events, event_id, fields = [], "", dict[str, str]()
    for line in body.split("\n"):
        if line and not line.startswith(":"):
            name, _, value = line.partition(":")
            fields[name] = value
            event_id = fields.get("id", event_id)
        elif not line and (fields or event_id):
            events.append(fields)
            fields = {}
    return [
        str(event) for event in events[:-1] if "data" not in event
    ]  # the body ends with a newline


async def test_a_parser_that_takes_an_empty_line_for_an_event_finds_data_in_each(
    opened: OpenSession, serve: Serve, hurry: asyncio.Task[None]
) -> None:
    hurry.cancel()
    session = await opened(await serve(sse_heartbeat_seconds=0.1))
    text = demo(first_token_ms=350, tokens=2, gap_ms=350, seed=6)
    response_id = (await session.post("m1", None, text)).json["response_id"]
    async with session.events(response_id) as stream:
        body = (await stream.read()).decode()
    assert "retry: 500\n" in body
    assert body.count(": still here\n") > 2
    assert not _without_data(body)


async def _raw_events(session: ChatSession, response_id: str, version: str) -> RawWebSocket:
    raw = await RawWebSocket.connect(int(session.http_url.rpartition(":")[2]))
    path = f"/chat/message/{response_id}/events"
    raw.write(
        f"GET {path} HTTP/{version}\r\nHost: localhost\r\n"
        f"Authorization: Bearer {session.token}\r\n\r\n".encode()
    )
    return raw


async def test_a_client_of_the_older_http_gets_a_body_without_chunks(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _QUICK)).json["response_id"]
    async with await _raw_events(session, response_id, "1.0") as raw:
        head, _, body = (await raw.ended()).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body.startswith(b"retry: 500\nevent: chat.response.delta\nid: ")
    assert b"\r\n" not in body


async def test_behind_a_stream_the_connection_is_used_again(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, _QUICK)).json["response_id"]
    async with await _raw_events(session, response_id, "1.1") as raw:
        raw.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        came = await raw.ended()
    assert b"event: chat.response.completed" in came
    assert came.count(b"\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n") == 1


async def test_an_ended_stream_is_closed(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, demo(tokens=500, gap_ms=10))).json["response_id"]
    answer = Answer()
    async with session.events(response_id) as stream:
        reading = asyncio.create_task(read_answer(stream, answer))
        await asyncio.sleep(0.2)
        await session.call("POST", f"/chat/message/{response_id}/cancel")
        await asyncio.wait_for(reading, 20)
    assert answer.finish_reason == "cancelled"


async def test_a_response_has_so_many_readers(opened: OpenSession, serve: Serve) -> None:
    session = await opened(await serve(readers_per_response=2))
    response_id = (await session.post("m1", None, demo(tokens=500, gap_ms=10, seed=8))).json[
        "response_id"
    ]
    first, second = Answer(), Answer()
    async with session.events(response_id) as one, session.events(response_id) as two:
        await read_answer(one, first, 1)
        await read_answer(two, second, 1)
        for path in ("", "/events"):
            refused = await session.call("GET", f"/chat/message/{response_id}{path}")
            assert (refused.status, refused.error["code"]) == (429, "response_readers")
            assert int(refused.headers["Retry-After"]) >= 1
        async with session.connect() as connection:
            await connection.send("response.resume", response_id=response_id, after=-1)
            throttled = await connection.next_of("throttle")
            assert throttled["error"]["code"] == "response_readers"
        await read_answer(one, first)
        await read_answer(two, second)
    assert first.text == second.text == "".join(demo_tokens(8, 500))
