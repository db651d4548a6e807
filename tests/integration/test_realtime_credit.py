"""Credit over `/realtime`: the client sets the pace, the model waits for it, and nobody gains by
flooding.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest
from websockets.exceptions import ConnectionClosed

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_core.base.limits import Limits
from tests.integration.chat_client import ChatSession, checked_error, demo
from tests.integration.conftest import OpenSession, Serve, ServeProcess
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import CLOSE, RawWebSocket, client_frame, text_frame
from tests.integration.realtime_client import PATH, REALTIME, Spoken, realtime

_MEGABYTE = 1_048_576
_PER_SECOND = Limits().messages_per_second

pytestmark = pytest.mark.usefixtures("hurry")


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    """A server of this module's own, so that its counters are this module's."""
    return await serve(pause_window_bytes=2000, credit_window=20_000)


def text_of(seed: int, tokens: int) -> str:
    return "".join(demo_tokens(seed, tokens))


async def test_a_credit_of_one_at_a_time(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    granted = 1
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=12, gap_ms=60, seed=21), credit=granted
        )
        while (frame := await connection.receive())["type"] == "token":
            assert frame["index"] == granted - 1
            assert "from" not in frame
            if granted < 3:
                assert await connection.silent_for(0.15) == []
            granted += 1
            await connection.send("credit", response_id=response_id, n=1)
    assert frame["type"] == "final", "it needs no credit"
    assert connection.spoken[response_id].text == text_of(21, 12)


async def test_without_any_nothing_comes(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=30, gap_ms=30, seed=22), credit=0
        )
        assert await connection.silent_for(1.2) == []
        assert (await session.poll(response_id)).json["status"] == "completed"
        await connection.send("credit", response_id=response_id, n=2)
        assert (await connection.reach(response_id, 1)).last == 1
        assert await connection.silent_for(0.2) == [], "the end waits for what comes before it"
        await connection.send("credit", response_id=response_id, n=100)
        assert (await connection.whole(response_id)).text == text_of(22, 30)


async def test_more_than_the_answer_needs(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=60, gap_ms=10, seed=23), credit=20_000
        )
        spoken = await connection.whole(response_id)
        assert spoken.text == text_of(23, 60)
        assert spoken.final is not None
        assert spoken.final["usage"]["completion_tokens"] == 60
        # What crossed the end on its way is no error.
        await connection.send("credit", response_id=response_id, n=5)
        assert await connection.silent_for(0.2) == []


async def test_one_that_grants_as_it_renders_sees_everything(
    opened: OpenSession, server: LocalServer
) -> None:
    """The usual way: a window of a few, topped up as they are shown."""
    session = await opened(server)
    granted = 8
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=150, gap_ms=5, seed=24), credit=granted
        )
        spoken = connection.spoken[response_id]
        while spoken.final is None:
            await connection.receive()
            assert spoken.last < granted
            if granted - spoken.last <= 4:
                granted += 8
                await connection.send("credit", response_id=response_id, n=8)
    assert spoken.text == text_of(24, 150)
    assert not connection.other[1:], "nothing was refused"


async def _written(session: ChatSession, response_id: str) -> int:
    """How many entries the response has."""
    async with session.connect() as connection:
        rows = {row["response_id"]: row["next_index"] for row in connection.ready["responses"]}
        written: int = rows[response_id]
        return written


async def _written_when_still(session: ChatSession, response_id: str) -> int:
    """How many it has when no more have come for 0.3 s."""
    before, now = -1, await _written(session, response_id)
    while before != now:
        await asyncio.sleep(0.3)
        before, now = now, await _written(session, response_id)
    return now


async def test_the_model_waits_for_credit(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        # 8 KB; the model may be 2,000 bytes ahead.
        response_id = await connection.start(
            "m1", None, demo(tokens=1200, gap_ms=0.5, seed=25), credit=2
        )
        await connection.reach(response_id, 1)
        held_at = await _written_when_still(session, response_id)
        assert await server.metric("generations_running") == 1
        # One entry more lets it go on by about one entry more, not by another window.
        await connection.send("credit", response_id=response_id, n=1)
        await connection.reach(response_id, 2)
        assert await _written_when_still(session, response_id) <= held_at + 20
        await connection.send("credit", response_id=response_id, n=10_000)
        assert (await connection.whole(response_id)).text == text_of(25, 1200)


async def test_another_reader_keeps_the_model_going(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with realtime(session) as slow, realtime(session) as quick:
        response_id = await slow.start("m1", None, demo(tokens=1200, gap_ms=0.5, seed=26), credit=2)
        await quick.resume(response_id, Spoken())
        assert (await quick.whole(response_id)).text == text_of(26, 1200)
        assert (await slow.reach(response_id, 1)).last == 1
        await slow.send("credit", response_id=response_id, n=10_000)
        assert (await slow.whole(response_id)).text == text_of(26, 1200)


async def test_who_comes_back_sets_its_pace_anew(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=60, gap_ms=40, seed=27), credit=5
        )
        held = await connection.reach(response_id, 4)
    for _ in range(2):
        async with realtime(session) as connection:
            before = held.last
            await connection.resume(response_id, held, credit=3)
            held = await connection.reach(response_id, before + 3)
            assert await connection.silent_for(0.2) == []
            assert held.last == before + 3
    async with realtime(session) as connection:
        await connection.resume(response_id, held)
        assert (await connection.whole(response_id)).text == text_of(27, 60)


async def test_a_stalled_client_with_credit_loses_nothing_and_gets_no_more(
    opened: OpenSession, serve: Serve
) -> None:
    server = await serve(write_buffer_bytes=4_096, pause_window_bytes=1_048_576)
    session = await opened(server)
    tokens, credit = 20_000, 1_500
    async with await RawWebSocket.connect(server.port, receive_buffer=2048) as raw:
        assert await raw.handshake(session.token, protocol=REALTIME, path=PATH) == 101
        text = demo(tokens=tokens, gap_ms=0.05, seed=28)
        raw.write(text_frame({"type": "start", "id": "m1", "text": text, "credit": credit}))
        response_id = (await raw.next_of("started"))["response_id"]
        await server.until_metric("ws_backpressure_drops_part_total", 1, at_least=True)
        await asyncio.sleep(0.5)
        spoken = Spoken()
        while spoken.last < credit - 1:
            spoken.take(await raw.next_of("token"))
        assert spoken.last == credit - 1
        assert text_of(28, tokens).startswith(spoken.text)
        assert [frame for frame in spoken.frames if "from" in frame], "what it missed came joined"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await raw.next_of("token")
    async with realtime(session) as connection:
        await connection.resume(response_id, spoken)
        assert (await connection.whole(response_id)).text == text_of(28, tokens)


async def test_more_than_the_window_is_refused_and_changes_nothing(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=30, gap_ms=30, seed=29), credit=0
        )
        for n in ("9.99e99", "1e5", str(10**99), "20001"):
            await connection.websocket.send(
                f'{{"type":"credit","response_id":"{response_id}","n":{n}}}'
            )
            refused = await connection.next_of("error")
            assert refused["response_id"] == response_id
            assert (checked_error(refused)["code"], refused["error"]["param"]) == (
                "invalid_field",
                "n",
            )
        await connection.send("credit", response_id=response_id, n=3)
        await connection.reach(response_id, 2)
        assert await connection.silent_for(0.2) == []
        await connection.send("credit", response_id=response_id, n=20_000)
        assert (await connection.whole(response_id)).text == text_of(29, 30)


async def test_what_is_granted_adds_up_to_the_window_and_no_further(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=2, first_token_ms=400, seed=30), credit=15_000
        )
        await connection.send("credit", response_id=response_id, n=5_000)
        await connection.send("credit", response_id=response_id, n=1)
        refused = await connection.next_of("error")
        assert (checked_error(refused)["code"], refused["error"]["param"]) == ("invalid_field", "n")
        assert (await connection.whole(response_id)).text == text_of(30, 2)


async def test_a_flood_of_credit_is_bounded(
    opened: OpenSession, server: LocalServer, serve: Serve
) -> None:
    session, bystander = await opened(server), await opened(server)
    async with realtime(bystander) as other, realtime(session) as connection:
        watched = await other.start("m1", None, demo(tokens=60, gap_ms=20, seed=31))
        response_id = await connection.start(
            "m1", None, demo(tokens=2000, gap_ms=5, seed=32), credit=0
        )
        began = serve.time.monotonic()
        frame = json.dumps({"type": "credit", "response_id": response_id, "n": 1})
        try:
            for _ in range(20_000):
                await connection.websocket.send(frame)
        except ConnectionClosed:
            pass
        assert await connection.closed() == 1008
        refused = [told for told in connection.other if told["type"] == "error"]
        assert {checked_error(told)["code"] for told in refused} == {"rate_limited"}
        assert all(told["response_id"] == response_id for told in refused), (
            "its sender knows what was not granted"
        )
        # As many as were let through were granted, and no more.
        assert connection.spoken[response_id].last < 2 * _PER_SECOND + _PER_SECOND * (
            serve.time.monotonic() - began
        )
        assert (await other.whole(watched)).text == text_of(31, 60)


async def test_one_that_floods_and_never_reads_costs_no_memory(
    opened: OpenSession, serve_process: ServeProcess
) -> None:
    server = serve_process(messages_per_second=100_000)  # so that every grant is acted upon
    session = await opened(server)
    grown = []
    for message, previous in pairwise((None, "m1", "m2", "m3")):
        async with await RawWebSocket.connect(server.port, receive_buffer=2048) as raw:
            assert await raw.handshake(session.token, protocol=REALTIME, path=PATH) == 101
            text = demo(tokens=20_000, gap_ms=0.1, seed=33)
            start = {
                "type": "start",
                "id": previous,
                "previous": message,
                "text": text,
                "credit": 0,
            }
            raw.write(text_frame(start))
            response_id = (await raw.next_of("started"))["response_id"]
            flood = text_frame({"type": "credit", "response_id": response_id, "n": 1}) * 1000
            try:
                async with asyncio.timeout(1):
                    for _ in range(100):
                        raw.write(flood)
                        await raw.drain()
            except (TimeoutError, ConnectionError):
                pass  # it doesn't read any more, or has closed: both are right
            grown.append(server.resident_bytes)
            raw.write(text_frame({"type": "cancel", "response_id": response_id}))
    assert grown[-1] - grown[0] < 6 * _MEGABYTE


async def test_who_grants_nothing_more_is_let_go_in_time(opened: OpenSession, serve: Serve) -> None:
    server = await serve(pause_seconds=0.5)
    session = await opened(server)
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=100, gap_ms=20, seed=34), credit=1
        )
        held = await connection.reach(response_id, 0)
        assert await connection.closed() == 4008
    async with realtime(session) as connection:
        await connection.resume(response_id, held)
        assert (await connection.whole(response_id)).text == text_of(34, 100)


async def test_without_credit_no_places_are_held_from_others_and_nothing_is_lost(
    opened: OpenSession, serve: Serve
) -> None:
    places = 3
    server = await serve(generations_per_node=places, queue_depth=8, pause_window_bytes=64)
    async with AsyncExitStack() as stack:
        silent = []
        for number in range(2 * places):
            connection = await stack.enter_async_context(realtime(await opened(server)))
            text = demo(tokens=100, gap_ms=1, seed=40 + number)
            silent.append((connection, await connection.start("m1", None, text, credit=0)))
        await server.until_metric("generations_parked", places)
        other = await stack.enter_async_context(realtime(await opened(server)))
        response_id = await other.start("m1", None, demo(tokens=20, gap_ms=1, seed=39))
        assert (await other.whole(response_id)).text == text_of(39, 20)
        for connection, response_id in silent:
            await connection.send("credit", response_id=response_id, n=1_000)
        for number, (connection, response_id) in enumerate(silent):
            assert (await connection.whole(response_id)).text == text_of(40 + number, 100)
    assert await server.metric("generations_parked") == 0


async def test_a_websocket_close_frame_ends_it(opened: OpenSession, server: LocalServer) -> None:
    """Leaving with credit unused is leaving: the reader goes, and the model is held by nobody."""
    session = await opened(server)
    async with await RawWebSocket.connect(server.port) as raw:
        assert await raw.handshake(session.token, protocol=REALTIME, path=PATH) == 101
        text = demo(tokens=600, gap_ms=1, seed=35)
        raw.write(text_frame({"type": "start", "id": "m1", "text": text, "credit": 1}))
        response_id = (await raw.next_of("started"))["response_id"]
        await raw.next_of("token")
        raw.write(client_frame(CLOSE))
        await raw.ended()
    answer, _, _ = await session.poll_whole(response_id)
    assert answer["full_text"] == text_of(35, 600)
