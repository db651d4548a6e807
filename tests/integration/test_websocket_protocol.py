"""The WebSocket protocol: order, resuming, idempotency, causality, pause, cancel."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Answer
from tests.integration.chat_client import COMPACT, V1, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer

_QUICK = demo(tokens=30, gap_ms=5, seed=3)
_QUICK_TEXT = "".join(demo_tokens(3, 30))
_LONG = demo(tokens=2000, gap_ms=10, seed=4)

pytestmark = pytest.mark.usefixtures("hurry")


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    """A server of this module's own, so that its counters are this module's."""
    return await serve(pause_window_bytes=2000, grace_seconds=1)


@pytest.mark.parametrize("protocol", [V1, COMPACT])
async def test_an_answer_comes_in_order_and_is_what_a_poll_says(
    opened: OpenSession, protocol: str
) -> None:
    session = await opened()
    async with session.connect(protocol) as connection:
        start = await connection.message("m1", None, demo(tokens=40, gap_ms=10, seed=5))
        answer = await connection.whole(start["response_id"])
    assert start["next_index"] == 0
    assert start["duplicate"] is False
    assert start["status"] in ("queued", "streaming")
    assert ("stream" in start) == (protocol == COMPACT)
    polled = (await session.poll(start["response_id"])).json
    assert answer.text == polled["full_text"] == "".join(demo_tokens(5, 40))
    assert answer.deltas > 3
    assert answer.end is not None
    assert answer.end["message_id"] == "m1"
    assert answer.finish_reason == "stop"
    assert answer.end["usage"]["completion_tokens"] == 40
    assert answer.end["degraded"] is False


async def test_a_delta_frame_is_exactly_the_contracts(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=40, gap_ms=30, seed=1))
        await connection.reach(start["response_id"], 2)
        await connection.websocket.send(
            "{"
        )  # its answer is an error frame; the deltas around it are not touched
        raw = [await connection.websocket.recv() for _ in range(3)]
    deltas = [frame for frame in raw if isinstance(frame, str) and '"chat.response.delta"' in frame]
    assert deltas
    for frame in deltas:
        told = json.loads(frame)
        exact = {
            "type": "chat.response.delta",
            "session_id": session.session_id,
            "response_id": start["response_id"],
            "delta": told["delta"],
            "index": told["index"],
        }
        assert frame == json.dumps(exact, ensure_ascii=False, separators=(",", ":"))


async def test_ready_describes_the_session(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        ready = connection.ready
        assert ready["session_id"] == session.session_id
        assert ready["protocol"] == V1
        assert ready["last_message_id"] is None
        assert ready["responses"] == []
        limits = {"message_bytes": 65536, "messages_in_flight": 4, "batch_window_ms": 50}
        assert limits.items() <= ready["limits"].items()
        assert {"heartbeat_seconds": 25, "pong_timeout_seconds": 60}.items() <= ready[
            "limits"
        ].items()
        first = await connection.ask("m1", None, _QUICK)
        second = await connection.message("m2", "m1", _LONG)
        async with session.connect() as other:
            assert other.ready["last_message_id"] == "m2"
            known = {row["message_id"]: row for row in other.ready["responses"]}
        assert known["m1"]["status"] == "completed"
        assert known["m1"]["next_index"] == first.last + 1
        assert known["m2"]["status"] == "streaming"
        assert known["m2"]["response_id"] == second["response_id"]
        await connection.send("response.cancel", response_id=second["response_id"])
        await connection.whole(second["response_id"])


# -- resuming --------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [V1, COMPACT])
async def test_a_new_connection_resumes_mid_stream(opened: OpenSession, protocol: str) -> None:
    session = await opened()
    async with session.connect(protocol) as connection:
        start = await connection.message("m1", None, demo(tokens=80, gap_ms=8, seed=6))
        held = await connection.reach(start["response_id"], 4)
    async with session.connect(protocol) as connection:
        answer = await connection.resume(start["response_id"], held.last, held.text)
        await connection.whole(start["response_id"])
    assert answer.text == "".join(demo_tokens(6, 80))


async def test_resuming_after_the_end(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        first = await connection.ask("m1", None, _QUICK)
        response_id = first.frames[-1]["response_id"]
    async with session.connect() as connection:
        whole = await connection.resume(response_id, -1)
        await connection.whole(response_id)
        assert whole.text == _QUICK_TEXT
        tail = await connection.resume(response_id, 0, first.frames[0]["delta"])
        await connection.whole(response_id)
        assert tail.text == _QUICK_TEXT
        nothing = await connection.resume(response_id, first.last, first.text)
        await connection.whole(response_id)
        assert nothing.deltas == 0
        assert nothing.finish_reason == "stop"


async def test_resuming_beyond_the_end_is_an_error(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        first = await connection.ask("m1", None, _QUICK)
        response_id = first.frames[-1]["response_id"]
        await connection.send("response.resume", response_id=response_id, after=first.last + 1)
        refused = await connection.next_of("error")
        assert checked_error(refused)["code"] == "invalid_field"
        assert refused["error"]["param"] == "after"
        assert refused["response_id"] == response_id


async def test_another_sessions_response_is_not_found(opened: OpenSession) -> None:
    owner, stranger = await opened(), await opened()
    async with owner.connect() as mine, stranger.connect() as connection:
        start = await mine.message("m1", None, demo(tokens=40, gap_ms=20, seed=7))
        for operation in ("resume", "pause", "continue", "cancel", "ack"):
            fields = {"resume": {"after": -1}, "ack": {"index": 0}}.get(operation, {})
            await connection.send(
                f"response.{operation}", response_id=start["response_id"], **fields
            )
            refused = await connection.next_of("error")
            assert checked_error(refused)["code"] == "response_not_found"
            assert refused["response_id"] == start["response_id"]
        answer = await mine.whole(start["response_id"])
        assert answer.text == "".join(demo_tokens(7, 40))
        assert answer.finish_reason == "stop"


@pytest.mark.parametrize("protocol", [V1, COMPACT])
@pytest.mark.parametrize("tokens", [1300, 3000, 20_000])
async def test_a_long_answer_is_resumed_at_once(
    opened: OpenSession, protocol: str, tokens: int
) -> None:
    """Several large frames in one turn of the event loop, and their end behind them."""
    session = await opened()
    response_id = (await session.post("m1", None, demo(tokens=tokens, gap_ms=0.01, seed=16))).json[
        "response_id"
    ]
    await session.poll_whole(response_id)
    for _ in range(2):
        async with session.connect(protocol) as connection:
            answer = await connection.resume(response_id, -1)
            await connection.whole(response_id)
        assert answer.text == "".join(demo_tokens(16, tokens))


async def test_resuming_twice_on_one_connection_moves_the_one_cursor(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=60, gap_ms=10, seed=8))
        response_id = start["response_id"]
        await connection.reach(response_id, 3)
        await connection.send("response.resume", response_id=response_id, after=-1)
        # What was on its way belongs to the old cursor; from the new start on each index comes
        # once.
        while (await connection.receive())["type"] != "chat.response.start":
            pass
        connection.answers[response_id] = Answer()
        answer = await connection.whole(response_id)
        assert answer.text == "".join(demo_tokens(8, 60))
        assert await connection.silent_for(0.3) == []


# -- idempotency and causality ---------------------------------------------------------------------


async def test_a_repeated_message_is_one_response_and_one_call_of_the_model(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    before = await server.metrics()
    text = demo(tokens=50, gap_ms=10, seed=9)
    async with session.connect() as connection, session.connect() as other:
        start = await connection.message("m1", None, text)
        response_id = start["response_id"]
        await connection.reach(response_id, 2)
        # On the connection that reads it already: the same response, and its deltas go on.
        again = await connection.message("m1", None, text)
        assert again["response_id"] == response_id
        assert again["duplicate"] is True
        assert again["next_index"] == connection.answers[response_id].last + 1
        # On another connection: from the beginning.
        elsewhere = await other.message("m1", None, text)
        assert elsewhere["response_id"] == response_id
        assert elsewhere["duplicate"] is True
        assert elsewhere["next_index"] == 0
        # Over HTTP.
        posted = await session.post("m1", None, text)
        assert posted.status == 202
        assert posted.json["response_id"] == response_id
        first, second = await connection.whole(response_id), await other.whole(response_id)
        # After the end: from the beginning again.
        late = await connection.message("m1", None, text)
        assert late["response_id"] == response_id
        connection.answers[response_id] = Answer()
        third = await connection.whole(response_id)
    assert first.text == second.text == third.text == "".join(demo_tokens(9, 50))
    after = await server.metrics()
    assert (
        after["evenflow_tokens_generated_total"] - before["evenflow_tokens_generated_total"] == 50
    )
    assert (
        after["evenflow_responses_completed_total"] - before["evenflow_responses_completed_total"]
        == 1
    )


async def test_a_message_posted_over_http_is_read_over_websocket(opened: OpenSession) -> None:
    session = await opened()
    posted = (await session.post("m1", None, _QUICK)).json
    async with session.connect() as connection:
        start = await connection.message("m1", None, _QUICK)
        assert start["response_id"] == posted["response_id"]
        assert start["duplicate"] is True
        assert (await connection.whole(posted["response_id"])).text == _QUICK_TEXT


@pytest.mark.parametrize("protocol", [V1, COMPACT])
async def test_each_start_of_a_compact_connection_announces_its_stream(
    opened: OpenSession, protocol: str
) -> None:
    session = await opened()
    async with session.connect(protocol) as connection:
        text = demo(tokens=40, gap_ms=10)
        start = await connection.message("m1", None, text)
        again = await connection.message("m1", None, text)
        assert ("stream" in again) == (protocol == COMPACT)
        assert again.get("stream") == start.get("stream")
        assert (await connection.whole(start["response_id"])).finish_reason == "stop"


@pytest.mark.parametrize("wrong", ["m0", "m2", None])
async def test_a_causal_violation_says_what_is_expected(
    opened: OpenSession, wrong: str | None
) -> None:
    session = await opened()
    async with session.connect() as connection:
        await connection.ask("m1", None, _QUICK)
        await connection.send(
            "chat.message", message_id="m2", previous_message_id=wrong, payload={"text": "x"}
        )
        refused = await connection.next_of("error")
        assert refused["message_id"] == "m2"
        error = checked_error(refused)
        assert (error["type"], error["code"], error["expected"]) == (
            "conflict_error",
            "causal_violation",
            "m1",
        )
        assert (await connection.ask("m2", "m1", _QUICK)).text == _QUICK_TEXT


async def test_the_first_message_follows_null(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        await connection.send(
            "chat.message", message_id="m1", previous_message_id="m0", payload={"text": "x"}
        )
        error = checked_error(await connection.next_of("error"))
        assert error["code"] == "causal_violation"
        assert "expected" in error
        assert error["expected"] is None
        await connection.send("chat.message", message_id="m1", payload={"text": _QUICK})
        start = await connection.next_of("chat.response.start")
        assert (await connection.whole(start["response_id"])).text == _QUICK_TEXT


async def test_several_messages_in_flight_and_one_too_many(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        starts = []
        previous = None
        for number in range(4):
            text = demo(tokens=60, gap_ms=10, seed=number)
            starts.append(await connection.message(f"m{number}", previous, text))
            previous = f"m{number}"
        await connection.send(
            "chat.message", message_id="m4", previous_message_id="m3", payload={"text": _QUICK}
        )
        refused = await connection.next_of("throttle")
        assert refused["message_id"] == "m4"
        assert refused["retry_after_ms"] > 0
        error = checked_error(refused)
        assert (error["type"], error["code"]) == ("rate_limit_error", "session_in_flight")
        answers = [await connection.whole(start["response_id"]) for start in starts]
        assert [answer.text for answer in answers] == [
            "".join(demo_tokens(number, 60)) for number in range(4)
        ]
        # The refused message was not accepted: it may come again.
        assert (await connection.ask("m4", "m3", _QUICK)).text == _QUICK_TEXT


# -- pause and continue ----------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [V1, COMPACT])
async def test_a_paused_reader_gets_nothing_and_then_everything_once(
    opened: OpenSession, protocol: str
) -> None:
    session = await opened()
    async with session.connect(protocol) as connection:
        start = await connection.message("m1", None, demo(tokens=120, gap_ms=10, seed=10))
        response_id = start["response_id"]
        await connection.reach(response_id, 3)
        await connection.send("response.pause", response_id=response_id)
        await connection.send("response.ack", response_id=response_id, index=0)
        await connection.silent_for(0.2)  # what was on its way when the pause arrived
        assert await connection.silent_for(0.4) == []
        await connection.send("response.pause", response_id=response_id)
        assert await connection.silent_for(0.1) == []
        await connection.send("response.continue", response_id=response_id)
        answer = await connection.whole(response_id)
        assert answer.text == "".join(demo_tokens(10, 120))
        assert answer.joined >= 1


async def test_a_pause_holds_only_its_own_connection(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as paused, session.connect() as reading:
        start = await paused.message("m1", None, demo(tokens=300, gap_ms=10, seed=11))
        response_id = start["response_id"]
        await reading.resume(response_id, -1)
        await paused.send("response.pause", response_id=response_id)
        assert (await reading.whole(response_id)).text == "".join(demo_tokens(11, 300))
        before = paused.answers[response_id].last
        await paused.silent_for(0.2)
        assert (
            paused.answers[response_id].last <= before + 15
        )  # of about sixty: what was sent until it was heard
        await paused.send("response.continue", response_id=response_id)
        assert (await paused.whole(response_id)).text == "".join(demo_tokens(11, 300))


async def test_a_pause_holds_the_model_past_its_window(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=1200, gap_ms=0.5, seed=12))
        response_id = start["response_id"]
        await connection.reach(response_id, 1)
        await connection.send("response.pause", response_id=response_id)
        # 1,200 tokens take 0.6 s; the window of 2,000 bytes holds a third of them.
        await asyncio.sleep(1.1)
        assert await server.metric("generations_running") == 1
        async with session.connect() as other:
            (row,) = [row for row in other.ready["responses"] if row["response_id"] == response_id]
            assert row["status"] == "streaming"
            held_at = row["next_index"]
        await asyncio.sleep(0.3)
        async with session.connect() as other:
            (row,) = [row for row in other.ready["responses"] if row["response_id"] == response_id]
            assert row["next_index"] == held_at
        await connection.send("response.continue", response_id=response_id)
        answer = await connection.whole(response_id)
        assert answer.text == "".join(demo_tokens(12, 1200))


async def test_continue_without_a_pause_changes_nothing(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=40, gap_ms=10, seed=13))
        await connection.send("response.continue", response_id=start["response_id"])
        assert (await connection.whole(start["response_id"])).text == "".join(demo_tokens(13, 40))


# -- cancel ----------------------------------------------------------------------------------------


async def test_cancel_stops_the_model_within_200_ms(
    opened: OpenSession, server: LocalServer, hurry: asyncio.Task[None]
) -> None:
    hurry.cancel()
    session = await opened(server)
    told, stopped = [], []
    async with session.connect() as connection:
        previous = None
        for number in range(5):
            start = await connection.message(f"m{number}", previous, _LONG)
            previous = f"m{number}"
            response_id = start["response_id"]
            await connection.reach(response_id, 2)
            assert await server.metric("generations_running") == 1
            began = time.monotonic()
            await connection.send("response.cancel", response_id=response_id)
            answer = await connection.whole(response_id)
            told.append(time.monotonic() - began)
            await server.until_metric("generations_running", 0)
            stopped.append(time.monotonic() - began)
            assert answer.finish_reason == "cancelled"
            assert "".join(demo_tokens(4, 2000)).startswith(answer.text)
    # The best one: the machine is shared, and a try may wait for its turn.
    assert min(told) < 0.2, told
    assert min(stopped) < 0.2, stopped


async def test_a_paused_response_can_be_cancelled(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        start = await connection.message("m1", None, _LONG)
        response_id = start["response_id"]
        await connection.reach(response_id, 2)
        await connection.send("response.pause", response_id=response_id)
        await connection.silent_for(0.2)
        await connection.send("response.cancel", response_id=response_id)
        answer = await connection.whole(response_id)
        assert answer.finish_reason == "cancelled"


async def test_cancelling_an_ended_response_changes_nothing(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        first = await connection.ask("m1", None, _QUICK)
        response_id = first.frames[-1]["response_id"]
        await connection.send("response.cancel", response_id=response_id)
        await connection.silent_for(0.2)
        assert (await session.poll(response_id)).json["status"] == "completed"


# -- several readers, ack --------------------------------------------------------------------------


async def test_acknowledged_deltas_are_counted_once(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, _QUICK)
        response_id = answer.frames[-1]["response_id"]
        before = await server.metric("deltas_acknowledged_total")
        for index in (1, 3, 3, 2, answer.last):
            await connection.send("response.ack", response_id=response_id, index=index)
        assert await connection.silent_for(0.3) == []
        assert await server.metric("deltas_acknowledged_total") - before == answer.last + 1
        await connection.send("response.ack", response_id=response_id, index=answer.last + 1)
        assert checked_error(await connection.next_of("error"))["code"] == "invalid_field"


async def test_two_connections_read_the_same_response(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as first, session.connect(COMPACT) as second:
        start = await first.message("m1", None, demo(tokens=60, gap_ms=10, seed=14))
        response_id = start["response_id"]
        await first.reach(response_id, 3)
        await second.resume(response_id, -1)
        await asyncio.gather(first.whole(response_id), second.whole(response_id))
        texts = {first.answers[response_id].text, second.answers[response_id].text}
        assert texts == {"".join(demo_tokens(14, 60))}


async def test_replace_closes_the_sessions_other_connections(opened: OpenSession) -> None:
    session, bystander = await opened(), await opened()
    async with (
        session.connect() as first,
        session.connect() as second,
        bystander.connect() as other,
    ):
        start = await first.message("m1", None, demo(tokens=60, gap_ms=10, seed=15))
        held = await first.reach(start["response_id"], 2)
        async with session.connect(query="?replace=1") as newest:
            assert await first.closed() == 4009
            assert await second.closed() == 4009
            held = first.answers[start["response_id"]]
            answer = await newest.resume(start["response_id"], held.last, held.text)
            await newest.whole(start["response_id"])
            assert answer.text == "".join(demo_tokens(15, 60))
            assert (await other.ask("m1", None, _QUICK)).text == _QUICK_TEXT


async def test_conversation_goes_on_over_several_connections(opened: OpenSession) -> None:
    session = await opened()
    previous = None
    for number in range(3):
        async with session.connect() as connection:
            assert connection.ready["last_message_id"] == previous
            answer = await connection.ask(f"m{number}", previous, _QUICK)
            assert answer.text == _QUICK_TEXT
        previous = f"m{number}"
