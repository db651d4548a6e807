"""`/realtime`: each frame, wrong ones, resuming, pausing, cancelling, leaving, and who may open
it.
"""

from __future__ import annotations

import json

import aiohttp
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Frame
from tests.integration.chat_client import V1, call, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import CLOSE, PING, RawWebSocket
from tests.integration.realtime_client import (
    OTHER_PATH,
    PATH,
    REALTIME,
    Spoken,
    realtime,
    realtime_url,
)


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    """A server of this module's own, so that its counters are this module's."""
    return await serve(grace_seconds=5, protocol_errors_per_minute=1000, messages_per_second=1000)


def text_of(seed: int, tokens: int) -> str:
    return "".join(demo_tokens(seed, tokens))


# -- an answer -------------------------------------------------------------------------------------


async def test_an_answer_from_start_to_final(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        assert connection.websocket.subprotocol == REALTIME
        assert connection.ready["protocol"] == REALTIME
        assert connection.ready["last_message_id"] is None
        await connection.send("start", id="m1", text=demo(tokens=30, gap_ms=10, seed=5))
        started = await connection.next_of("started")
        assert {"id": "m1", "next_index": 0, "duplicate": False}.items() <= started.items()
        spoken = await connection.whole(started["response_id"])
    assert spoken.text == text_of(5, 30)
    assert spoken.final is not None
    assert spoken.final["id"] == "m1"
    assert spoken.final["finish_reason"] == "stop"
    assert spoken.final["usage"]["completion_tokens"] == 30
    assert spoken.final["degraded"] is False
    assert "error" not in spoken.final
    polled = (await session.poll(started["response_id"])).json
    assert polled["full_text"] == spoken.text


async def test_a_token_is_written_exactly_as_documented(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        response_id = await connection.start("m1", None, demo(tokens=20, gap_ms=60, seed=1))
        raw = [await connection.websocket.recv() for _ in range(3)]
    for index, frame in enumerate(raw):
        told = json.loads(frame)
        exact = {"type": "token", "response_id": response_id, "index": index, "text": told["text"]}
        assert frame == json.dumps(exact, ensure_ascii=False, separators=(",", ":"))


async def test_what_an_attempt_said_before_it_failed_is_restarted(
    opened: OpenSession, serve: Serve
) -> None:
    """Asked to go on behind eight tokens, the model fails again; then it begins anew."""
    session = await opened(await serve(model_retries=2))
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=20, gap_ms=10, seed=6, fail_after=8, fail_attempts=2)
        )
        spoken = await connection.whole(response_id)
    (restarted,) = spoken.restarts
    assert {"from_index": -1, "attempt": 3}.items() <= restarted.items()
    assert spoken.text == text_of(6, 20)


async def test_an_answer_that_fails_ends_with_a_final_that_says_why(
    opened: OpenSession, serve: Serve
) -> None:
    server = await serve(model_retries=0, fallback_text="")
    session = await opened(server)
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=20, gap_ms=5, seed=6, fail_after=8, fail_attempts=2)
        )
        spoken = await connection.whole(response_id)
    assert spoken.final is not None
    assert (spoken.final["finish_reason"], spoken.final["usage"]) == ("error", None)
    assert checked_error(spoken.final)["code"] == "upstream_failed"
    assert text_of(6, 20).startswith(spoken.text)
    assert spoken.text


async def test_two_answers_at_once(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        first = await connection.start("m1", None, demo(tokens=60, gap_ms=10, seed=7))
        second = await connection.start("m2", "m1", demo(tokens=60, gap_ms=10, seed=8), credit=10)
        ids: list[str] = []
        while connection.spoken[first].final is None:
            frame = await connection.receive()
            if frame["type"] == "token" and frame["response_id"] not in ids[-1:]:
                ids.append(frame["response_id"])
        assert len(ids) > 2, "they take turns"
        assert connection.spoken[first].text == text_of(7, 60)
        assert connection.spoken[second].last <= 9, "the pace of one is not the other's"
        await connection.send("credit", response_id=second, n=1000)
        assert (await connection.whole(second)).text == text_of(8, 60)


async def test_the_same_start_again_is_the_same_response(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    text = demo(tokens=40, gap_ms=10, seed=9)
    async with realtime(session) as connection, realtime(session) as other:
        response_id = await connection.start("m1", None, text)
        await connection.reach(response_id, 2)
        await connection.send("start", id="m1", text=text)
        again = await connection.next_of("started")
        assert (again["response_id"], again["duplicate"]) == (response_id, True)
        assert await other.start("m1", None, text) == response_id
        assert (await connection.whole(response_id)).text == text_of(9, 40)
        assert (await other.whole(response_id)).text == text_of(9, 40)


# -- what is refused -------------------------------------------------------------------------------

_START: Frame = {"type": "start", "id": "m1", "text": "x"}
_CREDIT: Frame = {"type": "credit", "response_id": "rsp_x"}
_WRONG: list[tuple[str, str, str | None]] = [
    ("", "invalid_json", None),
    ("{", "invalid_json", None),
    ("[1]", "invalid_field", None),
    ("{}", "unknown_type", "type"),
    (
        json.dumps({"type": "chat.message", "message_id": "m1", "payload": {"text": "x"}}),
        "unknown_type",
        "type",
    ),
    (json.dumps({"type": "token", "index": 1}), "unknown_type", "type"),
    (json.dumps({"type": "start", "text": "x"}), "invalid_field", "id"),
    (json.dumps({"type": "start", "id": "m1"}), "invalid_field", "text"),
    (json.dumps(_START | {"previous": 7}), "invalid_field", "previous"),
    (json.dumps(_START | {"id": "m" * 129}), "invalid_field", "id"),
    (json.dumps(_START | {"credit": -1}), "invalid_field", "credit"),
    (json.dumps(_START | {"credit": 65_537}), "invalid_field", "credit"),
    (json.dumps(_START)[:-1] + ',"credit":9.99e99}', "invalid_field", "credit"),
    (json.dumps(_CREDIT), "invalid_field", "n"),
    (json.dumps(_CREDIT | {"n": 0}), "invalid_field", "n"),
    (json.dumps(_CREDIT | {"n": -5}), "invalid_field", "n"),
    (json.dumps(_CREDIT | {"n": "5"}), "invalid_field", "n"),
    (json.dumps(_CREDIT | {"n": 65_537}), "invalid_field", "n"),
    (json.dumps(_CREDIT | {"n": 10**99}), "invalid_field", "n"),
    (json.dumps(_CREDIT)[:-1] + ',"n":9.99e99}', "invalid_field", "n"),
    (json.dumps({"type": "credit", "n": 5}), "invalid_field", "response_id"),
    (json.dumps({"type": "pause"}), "invalid_field", "response_id"),
    (json.dumps({"type": "cancel", "response_id": {}}), "invalid_field", "response_id"),
    (
        json.dumps({"type": "resume", "response_id": "rsp_x", "after": 1.5}),
        "invalid_field",
        "after",
    ),
    (json.dumps({"type": "resume", "response_id": "rsp_x", "credit": 5}), "invalid_field", "after"),
    *(
        (json.dumps({"type": kind, "response_id": "rsp_x"}), "response_not_found", None)
        for kind in ("pause", "resume")
    ),
    (json.dumps({"type": "cancel", "response_id": "rsp_x"}), "response_not_found", None),
    (json.dumps(_CREDIT | {"n": 5}), "response_not_found", None),
    (
        json.dumps({"type": "resume", "response_id": "rsp_x", "after": 3}),
        "response_not_found",
        None,
    ),
    (json.dumps(_START | {"previous": "m0"}), "causal_violation", "previous"),
]


async def test_wrong_frames_are_refused_and_the_connection_stays(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        for body, code, param in _WRONG:
            await connection.websocket.send(body)
            refused = await connection.next_of("error")
            error = checked_error(refused)
            assert (error["code"], error.get("param")) == (code, param), body[:100]
            named = {name: refused[name] for name in ("id", "response_id") if name in refused}
            assert named in ({}, {"id": "m1"}, {"response_id": "rsp_x"}), body[:100]
            assert named or "rsp_x" not in body, body[:100]
        response_id = await connection.start("m1", None, demo(tokens=5, gap_ms=1, seed=2))
        assert (await connection.whole(response_id)).text == text_of(2, 5)


async def test_one_start_too_many_is_told_when_to_come_again(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        previous = None
        for number in range(4):
            await connection.start(f"m{number}", previous, demo(tokens=100, gap_ms=20))
            previous = f"m{number}"
        await connection.send("start", id="m4", previous=previous, text="x")
        refused = await connection.next_of("error")
        assert refused["id"] == "m4"
        error = checked_error(refused)
        assert (error["type"], error["code"]) == ("rate_limit_error", "session_in_flight")
        assert error["retry_after_ms"] > 0


async def test_another_sessions_response_is_not_found(
    opened: OpenSession, server: LocalServer
) -> None:
    owner, stranger = await opened(server), await opened(server)
    async with realtime(owner) as mine, realtime(stranger) as connection:
        response_id = await mine.start("m1", None, demo(tokens=30, gap_ms=10, seed=3))
        for kind, fields in {
            "pause": {},
            "resume": {"after": -1},
            "cancel": {},
            "credit": {"n": 1},
        }.items():
            await connection.send(kind, response_id=response_id, **fields)
            refused = await connection.next_of("error")
            assert (refused["response_id"], checked_error(refused)["code"]) == (
                response_id,
                "response_not_found",
            )
        assert (await mine.whole(response_id)).text == text_of(3, 30)


# -- pause, cancel, resume -------------------------------------------------------------------------


async def test_paused_nothing_comes_and_then_everything_once(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        response_id = await connection.start("m1", None, demo(tokens=100, gap_ms=10, seed=10))
        await connection.reach(response_id, 2)
        await connection.send("pause", response_id=response_id)
        await connection.silent_for(0.2)  # what was on its way
        assert await connection.silent_for(0.3) == []
        await connection.send("resume", response_id=response_id)
        spoken = await connection.whole(response_id)
    assert spoken.text == text_of(10, 100)
    assert [frame for frame in spoken.frames if "from" in frame], "what was missed comes joined"


async def test_cancel_stops_the_model(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=2000, gap_ms=10, seed=4), credit=3
        )
        await connection.reach(response_id, 2)
        assert await server.metric("generations_running") >= 1
        await connection.send("cancel", response_id=response_id)
        spoken = await connection.whole(response_id)
        await server.until_metric("generations_running", 0)
    assert spoken.final is not None
    assert spoken.final["finish_reason"] == "cancelled"
    assert text_of(4, 2000).startswith(spoken.text)


async def test_who_comes_back_gets_each_index_once(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    held, response_id = Spoken(), ""
    for _ in range(4):
        async with realtime(session) as connection:
            if response_id:
                started = await connection.resume(response_id, held, epoch=1)
                assert (started["next_index"], started["duplicate"]) == (held.last + 1, True)
            else:
                response_id = await connection.start(
                    "m1", None, demo(tokens=120, gap_ms=8, seed=11)
                )
            held = await connection.reach(response_id, held.last + 3)
    # And the same log over the other dialect.
    async with session.connect() as connection_v1:
        answer = await connection_v1.resume(response_id, held.last, held.text)
        await connection_v1.whole(response_id)
    assert answer.text == text_of(11, 120)
    async with realtime(session) as connection:
        ready = {row["message_id"]: row for row in connection.ready["responses"]}
        assert ready["m1"]["status"] == "completed"
        await connection.resume(response_id, held)
        assert (await connection.whole(response_id)).text == text_of(11, 120)
        # From a place that it doesn't have.
        await connection.send("resume", response_id=response_id, after=held.last + 1)
        refused = await connection.next_of("error")
        assert (checked_error(refused)["code"], refused["error"]["param"]) == (
            "invalid_field",
            "after",
        )


# -- leaving ---------------------------------------------------------------------------------------


async def test_a_leaving_node_tells_its_clients_to_reconnect(
    opened: OpenSession, serve: Serve
) -> None:
    server = await serve(drain_seconds=30)
    session = await opened(server)
    async with realtime(session) as connection:
        response_id = await connection.start("m1", None, demo(tokens=60, gap_ms=20, seed=12))
        await connection.reach(response_id, 2)
        server.leave()
        told = await connection.next_of("reconnect")
        assert told["after_ms"] >= 0
        await connection.send("start", id="m2", previous="m1", text="x")
        refused = await connection.next_of("error")
        assert (refused["id"], checked_error(refused)["code"]) == ("m2", "draining")
        assert refused["error"]["retry_after_ms"] > 0
        assert (await connection.whole(response_id)).text == text_of(12, 60)
        with pytest.raises(InvalidStatus, match="503"):
            async with realtime(session):
                pass
        assert await connection.closed() == 1001
    await server.ended(10)


async def test_one_that_is_not_heard_is_closed(opened: OpenSession, serve: Serve) -> None:
    server = await serve(heartbeat_seconds=0.2, pong_timeout_seconds=0.5)
    session = await opened(server)
    async with realtime(session) as alive, await RawWebSocket.connect(server.port) as raw:
        assert await raw.handshake(session.token, protocol=REALTIME, path=PATH) == 101
        kinds = []
        while (frame := await raw.frame()).opcode != CLOSE:
            kinds.append(frame.opcode)
        assert frame.close_code == 4010
        assert PING in kinds
        response_id = await alive.start("m1", None, demo(tokens=3, gap_ms=1, seed=2))
        assert (await alive.whole(response_id)).text == text_of(2, 3)


# -- who may open it -------------------------------------------------------------------------------


async def _refusal(url: str, *names: str, token: str | None = None) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else None
    offered = [Subprotocol(name) for name in names] or None
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, subprotocols=offered, additional_headers=headers, proxy=None):
            pass
    response = refused.value.response
    return response.status_code, checked_error(json.loads(response.body))["code"]


@pytest.mark.parametrize("path", [PATH, OTHER_PATH])
async def test_it_is_opened_and_refused_as_the_other_one_is(
    opened: OpenSession, server: LocalServer, http: aiohttp.ClientSession, path: str
) -> None:
    session = await opened(server)
    url, bearer = realtime_url(session, path), f"bearer.{session.token}"
    assert await _refusal(url, REALTIME) == (401, "token_missing")
    assert await _refusal(url, REALTIME, "bearer.nonsense") == (401, "token_invalid")
    assert await _refusal(url, V1, bearer) == (400, "unsupported_subprotocol")
    assert await _refusal(session.ws_url, REALTIME, bearer) == (400, "unsupported_subprotocol")
    assert await _refusal(url + "/x", REALTIME, bearer) == (404, "path_not_found")
    over_http = await call(http, "GET", session.http_url + path)
    assert (over_http.status, over_http.error["code"]) == (426, "upgrade_required")
    # Without a subprotocol, by header.
    headers = {"Authorization": f"Bearer {session.token}"}
    async with connect(url, additional_headers=headers, proxy=None) as websocket:
        assert websocket.subprotocol is None
        assert json.loads(await websocket.recv())["protocol"] == REALTIME
        assert websocket.response is not None
        assert "WSID=" in websocket.response.headers["Set-Cookie"]


async def test_it_counts_as_a_connection_of_its_session(opened: OpenSession, serve: Serve) -> None:
    server = await serve(connections_per_session=2)
    session = await opened(server)
    async with session.connect() as other, realtime(session) as connection:
        names = (REALTIME, f"bearer.{session.token}")
        assert await _refusal(realtime_url(session), *names) == (429, "session_connections")
        async with realtime(session, "?replace=1") as newest:
            assert (await other.closed(), await connection.closed()) == (4009, 4009)
            response_id = await newest.start("m1", None, demo(tokens=3, gap_ms=1, seed=2))
            assert (await newest.whole(response_id)).text == text_of(2, 3)
