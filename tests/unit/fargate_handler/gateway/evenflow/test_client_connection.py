from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.dialect import COMPACT, V1
from evenflow.stream_core.protocols.evenflow.socket_session import CLOSE_SECONDS, Opcode
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Client, Gateway
from tests.unit.settle import settle


async def test_a_message_that_the_connection_refuses_is_counted_by_its_code() -> None:
    gateway = Gateway()
    client = gateway.connect()
    client.connection.ask_to_reconnect("leaving", 0)
    await client.say()
    assert client.last_code() == "draining"
    assert gateway.metrics.labelled(catalogue.MESSAGES_REFUSED).by_labels == {("draining",): 1}


# -- opening ---------------------------------------------------------------------------------------


async def test_a_connection_is_greeted_and_registered() -> None:
    gateway = Gateway()
    client = gateway.connect(COMPACT)
    ready = client.frames[0]
    assert ready["type"] == "session.ready"
    assert (ready["session_id"], ready["protocol"]) == ("ses_1", COMPACT)
    assert (ready["last_message_id"], ready["responses"]) == (None, [])
    assert ready["limits"]["message_bytes"] == 65_536
    assert len(gateway.registry) == 1
    assert gateway.metrics.distribution(catalogue.CONNECTION_SETUP).count == 1


async def test_who_comes_back_is_told_what_can_be_resumed() -> None:
    gateway = Gateway()
    first = gateway.connect()
    await first.say()
    await settle()
    gateway.call.push("a")
    ready = gateway.connect().frames[0]
    stream = gateway.stream(first)
    assert ready["last_message_id"] == "m1"
    assert ready["responses"] == [
        {
            "response_id": stream.response_id,
            "message_id": "m1",
            "status": "streaming",
            "next_index": 1,
        }
    ]


# -- messages and answers --------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [V1, COMPACT])
async def test_a_message_is_answered_with_its_start_its_deltas_and_its_end(protocol: str) -> None:
    gateway = Gateway()
    client = gateway.connect(protocol)
    await client.say()
    start = client.frames[1]
    assert (start["type"], start["message_id"], start["next_index"], start["duplicate"]) == (
        "chat.response.start",
        "m1",
        0,
        False,
    )
    assert ("stream" in start) == (protocol == COMPACT)
    await settle()
    for token in ("Even", "flow", " runs"):
        gateway.call.push(token)
        gateway.clock.turn(0.02)
    gateway.call.finish()
    await settle()
    assert client.text() == "Evenflow runs"
    end = client.frames[-1]
    assert (end["type"], end["finish_reason"], end["last_index"]) == (
        "chat.response.completed",
        "stop",
        1,
    )
    assert not client.connection.reading
    assert gateway.metrics.counter(catalogue.DELTAS_DELIVERED).value == 2


async def test_what_is_no_delta_comes_behind_the_deltas_before_it() -> None:
    gateway = Gateway()
    client = gateway.connect()
    await client.say()
    await settle()
    gateway.context.outbox._call_soon = lambda _flush: (
        None
    )  # deltas wait for the end of the loop's turn
    gateway.call.push("a")
    client.receive(b"nonsense")
    assert [frame["type"] for frame in client.frames[-2:]] == ["chat.response.delta", "error"]
    gateway.clock.turn(0.1)
    gateway.call.push("b")
    client.connection.close(1001, "leaving")
    assert client.text() == "ab"


async def test_the_same_message_again_starts_nothing_anew() -> None:
    gateway = Gateway()
    client = gateway.connect(COMPACT)
    await client.say()
    await settle()
    gateway.call.push("a")
    await client.say()
    first, second = client.transport.of_type("chat.response.start")
    assert (second["duplicate"], second["next_index"]) == (True, 1)
    assert (second["response_id"], second["stream"]) == (first["response_id"], first["stream"])
    gateway.call.finish()
    await settle()
    assert client.text() == "a"
    await client.say()
    assert client.transport.of_type("chat.response.start")[2]["next_index"] == 0
    assert len(gateway.source.calls) == 1


async def test_a_restart_is_told_with_an_index_of_its_own() -> None:
    gateway = Gateway(Limits(model_retries=1))
    client = gateway.connect()
    await client.say()
    await settle()
    gateway.call.push("wrong")
    gateway.stream(client).next_attempt()
    gateway.stream(client).restart()
    gateway.call.push("right")
    gateway.call.finish()
    await settle()
    assert client.text() == "right"
    restarted = client.transport.of_type("chat.response.restarted")
    assert [(frame["from_index"], frame["attempt"], frame["index"]) for frame in restarted] == [
        (-1, 2, 1)
    ]


async def test_a_failed_answer_ends_with_its_error() -> None:
    gateway = Gateway(Limits(model_retries=0))
    client = gateway.connect()
    await client.say()
    await settle()
    gateway.call.push("half")
    gateway.call.fail(UpstreamFailed("x", code="upstream_failed"))
    await settle()
    end = client.frames[-1]
    assert (end["type"], end["error"]["code"], end["last_index"]) == (
        "chat.response.error",
        "upstream_failed",
        0,
    )
    assert client.text() == "half"


@given(
    st.lists(
        st.sampled_from(["push", "turn", "block", "unblock", "leave", "pause", "continue"]),
        max_size=40,
    )
)
async def test_nothing_is_lost_whatever_the_socket_and_the_client_do(steps: list[str]) -> None:
    gateway = Gateway(Limits(batch_tokens=2))
    client = gateway.connect()
    await client.say()
    await settle()
    stream, sent = gateway.stream(client), ""
    for number, step in enumerate(steps):
        match step:
            case "push":
                sent += (token := chr(ord("a") + number % 26))
                gateway.call.push(token)
            case "turn":
                gateway.clock.turn(0.03)
            case "block" if not client.connection.session.blocked:
                client.connection.block()
            case "unblock" if client.connection.session.blocked:
                client.connection.unblock()
            case "pause" | "continue":
                client.send(f"response.{step}", response_id=stream.response_id)
            case "leave":
                client.connection.disconnected()
                held = client.frames
                client = gateway.connect()
                after = max(
                    (f["index"] for f in held if f["type"] == "chat.response.delta"), default=-1
                )
                client.frames[:0] = [
                    frame for frame in held if frame["type"] == "chat.response.delta"
                ]
                client.send("response.resume", response_id=stream.response_id, after=after)
    gateway.call.finish()
    await settle()
    if client.connection.session.blocked:
        client.connection.unblock()
    client.send("response.continue", response_id=stream.response_id)
    assert client.text() == sent
    assert len(client.transport.of_type("chat.response.completed")) == 1
    assert (stream.readers, stream.backpressure.paused_readers) == ({}, 0)


# -- resume, pause, cancel, acknowledge ------------------------------------------------------------


async def test_a_response_is_resumed_behind_any_index() -> None:
    gateway = Gateway(Limits(batch_tokens=1))
    first = gateway.connect()
    await first.say()
    await settle()
    gateway.call.push(*"abcdef")
    gateway.call.finish()
    await settle()
    response_id = gateway.stream(first).response_id
    for after in range(-1, 6):
        client = gateway.connect()
        client.send("response.resume", response_id=response_id, after=after)
        start = client.transport.of_type("chat.response.start")[0]
        assert (start["next_index"], start["duplicate"]) == (after + 1, True)
        deltas = client.transport.of_type("chat.response.delta")
        assert "".join(frame["delta"] for frame in deltas) == "abcdef"[after + 1 :]
        assert client.frames[-1]["type"] == "chat.response.completed"
        client.connection.disconnected()


async def test_a_resume_is_charged_by_what_it_replays() -> None:
    gateway = Gateway(Limits(calls_per_second=1, messages_per_second=1_000))
    first = gateway.connect()
    await first.say()
    await settle()
    for _ in range(10):
        gateway.call.push("x" * 10_000)
        gateway.clock.turn(0.1)
    gateway.call.finish()
    await settle()
    stream = gateway.stream(first)
    client = gateway.connect()

    def resume(after: int) -> str:
        client.send("response.resume", response_id=stream.response_id, after=after)
        kind: str = client.frames[-1]["type"]
        return kind

    last = stream.log.next_index - 1
    assert {resume(last) for _ in range(100)} == {"chat.response.completed"}
    assert resume(-1) == "chat.response.completed"
    assert resume(-1) == "throttle"
    assert client.last_code() == "rate_limited"
    assert client.frames[-1]["retry_after_ms"] > 2_000
    gateway.clock.turn(10.0)
    assert resume(-1) == "chat.response.completed"


async def test_nobody_resumes_what_is_not_there_yet() -> None:
    gateway = Gateway()
    client = gateway.connect()
    await client.say()
    await settle()
    gateway.call.push("a")
    client.send("response.resume", response_id=gateway.stream(client).response_id, after=1)
    await settle()
    assert client.last_code() == "invalid_field"
    assert client.connection.reading, "what it read it still reads"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("response.resume", {"after": -1}),
        ("response.pause", {}),
        ("response.continue", {}),
        ("response.cancel", {}),
        ("response.ack", {"index": 0}),
        ("tool.result", {"call_id": "c", "text": ""}),
        ("tool.cancel", {"call_id": "c"}),
    ],
)
async def test_a_response_that_is_not_there_is_refused_by_name(
    kind: str, fields: dict[str, object]
) -> None:
    client = Gateway().connect()
    client.send(kind, response_id="rsp_x", **fields)
    await settle()
    assert client.last_code() == "response_not_found"
    assert client.frames[-1]["response_id"] == "rsp_x"


async def test_while_paused_nothing_is_sent_and_a_cancel_is_answered_all_the_same() -> None:
    gateway = Gateway()
    client = gateway.connect()
    await client.say()
    await settle()
    response_id = gateway.stream(client).response_id
    gateway.call.push("a")
    client.send("response.pause", response_id=response_id)
    gateway.call.push("b")
    gateway.clock.turn(1.0)
    assert client.text() == "a"
    client.send("response.cancel", response_id=response_id)
    await settle()
    assert client.text() == "ab"
    assert client.frames[-1]["finish_reason"] == "cancelled"
    assert gateway.source.open_calls == 0


async def test_a_paused_reader_holds_the_model_once_it_is_the_window_ahead() -> None:
    gateway = Gateway(Limits(pause_window_bytes=100))
    client = gateway.connect()
    await client.say()
    await settle()
    response_id = gateway.stream(client).response_id
    client.send("response.pause", response_id=response_id)
    gateway.call.push("x" * 50)
    gateway.clock.turn(0.1)
    assert not gateway.call.sink.paused
    gateway.call.push("x" * 50)
    gateway.clock.turn(0.1)
    assert gateway.call.sink.paused
    client.send("response.continue", response_id=response_id)
    assert not gateway.call.sink.paused
    assert client.text() == "x" * 100


async def test_acknowledged_deltas_are_counted_once_and_only_those_that_exist() -> None:
    gateway = Gateway(Limits(batch_tokens=1))
    client = gateway.connect()
    await client.say()
    await settle()
    gateway.call.push(*"abc")
    response_id = gateway.stream(client).response_id
    for index in (0, 2, 1, 2):
        client.send("response.ack", response_id=response_id, index=index)
    assert gateway.metrics.counter(catalogue.DELTAS_ACKNOWLEDGED).value == 3
    client.send("response.ack", response_id=response_id, index=3)
    assert client.last_code() == "invalid_field"


# -- slow readers ----------------------------------------------------------------------------------


async def blocked_reader(gateway: Gateway) -> Client:
    client = gateway.connect()
    await client.say()
    await settle()
    client.connection.block()
    gateway.call.push("x")
    return client


async def test_a_reader_that_stays_behind_is_told_and_then_let_go_with_its_resume_point() -> None:
    gateway = Gateway(Limits(model_deadline_seconds=3600, model_silence_seconds=3600))
    client = await blocked_reader(gateway)
    assert client.connection in gateway.registry.slow
    for _ in range(10):
        gateway.clock.turn(1.0)
        client.connection.look_at_readers(gateway.clock.now)
    notices = client.transport.of_type("lag")
    assert len(notices) == 1
    assert (notices[0]["behind_deltas"], notices[0]["last_index"]) == (1, -1)
    assert notices[0]["behind_ms"] >= 10_000
    for _ in range(20):
        gateway.clock.turn(1.0)
        client.connection.look_at_readers(gateway.clock.now)
    assert client.transport.close is not None
    code, reason = client.transport.close
    assert code == 4008
    assert f"resume {gateway.stream(client).response_id} after -1" in str(reason)
    assert gateway.metrics.counter(catalogue.READERS_LAGGING).value == 1
    assert gateway.metrics.counter(catalogue.READERS_TOO_SLOW).value == 1
    assert client.connection not in gateway.registry.slow
    assert len(gateway.registry) == 0
    assert gateway.source.open_calls == 1, "the model goes on"


async def test_a_reader_that_catches_up_is_not_looked_at_any_more() -> None:
    gateway = Gateway()
    client = await blocked_reader(gateway)
    gateway.call.push(*"yz")
    gateway.clock.turn(5.0)
    client.connection.unblock()
    assert client.text() == "xyz"
    assert len(client.transport.of_type("chat.response.delta")) == 1, "joined"
    client.connection.look_at_readers(gateway.clock.now)
    assert client.connection not in gateway.registry.slow


async def test_a_pause_that_lasts_too_long_ends_the_connection() -> None:
    gateway = Gateway(
        Limits(grace_seconds=3600, model_deadline_seconds=3600, model_first_sign_seconds=3600)
    )
    client = gateway.connect()
    await client.say()
    await settle()
    client.send("response.pause", response_id=gateway.stream(client).response_id)
    for _ in range(299):
        gateway.clock.now += 1.0
        client.connection.look_at_readers(gateway.clock.now)
    assert client.transport.close is None
    gateway.clock.now += 1.0
    client.connection.look_at_readers(gateway.clock.now)
    assert client.transport.close is not None
    assert client.transport.close[0] == 4008


async def test_deltas_that_missed_their_interval_are_counted_once_each() -> None:
    gateway = Gateway(
        Limits(batch_tokens=1, model_deadline_seconds=3600, model_silence_seconds=3600)
    )
    client = await blocked_reader(gateway)
    gateway.call.push(*"abc")
    for _ in range(31):
        gateway.clock.turn(1.0)
        client.connection.look_at_readers(gateway.clock.now)
    ratio = gateway.metrics.ratio(catalogue.LATE_DELTAS)
    assert ratio.whole == 4
    assert 0 < ratio.part <= ratio.whole


@pytest.mark.parametrize(
    "last", ["chat.message", "response.resume", "nonsense", "response.ack", "look"]
)
async def test_a_client_that_asks_without_reading_is_let_go_once_and_nothing_of_it_stays(
    last: str,
) -> None:
    gateway = Gateway(Limits(protocol_errors_per_minute=1))
    client = gateway.connect()
    await client.say()
    await settle()
    gateway.call.push("x")
    stream = gateway.stream(client)
    client.receive(b"nonsense")
    client.connection.block()
    gateway.call.push("y")
    gateway.clock.turn(0.1)
    gateway.clock.now += 31.0
    client.connection.session._waiting = 64
    match last:
        case "chat.message":
            await client.say("m2", "m1")
        case "response.resume":
            client.send(last, response_id=stream.response_id, after=-1)
        case "response.ack":
            client.send(last, response_id=stream.response_id, index=1000)
        case "look":
            client.connection.look_at_readers(gateway.clock.now)
        case _:
            client.receive(b"nonsense")
    assert client.transport.close is not None
    assert client.transport.close[0] in (1008, 4008)
    assert not client.connection.reading
    assert not stream.readers
    assert len(gateway.registry) == 0
    assert client.connection not in gateway.registry.slow
    await gateway.orchestrator.cancel(stream)
    await settle()


# -- heartbeat -------------------------------------------------------------------------------------


async def test_a_silent_client_is_pinged_and_given_up_within_the_time_of_the_contract() -> None:
    gateway = Gateway()
    client = gateway.connect()
    began = gateway.clock.now
    while not client.transport.disconnected and gateway.clock.now < began + 200:
        gateway.clock.turn(0.5)
    assert 60.0 <= gateway.clock.now - began <= 75.0
    assert client.transport.pings in (2, 3)
    assert client.transport.close is not None
    assert client.transport.close[0] == 4010
    assert len(gateway.registry) == 0
    assert gateway.metrics.ratio(catalogue.DEAD_CONNECTIONS_RATE).part == 1


async def test_a_ping_of_the_client_is_answered_unless_it_does_not_read() -> None:
    client = Gateway().connect()
    client.receive(b"abc", Opcode.PING)
    client.connection.block()
    client.receive(b"def", Opcode.PING)
    assert client.transport.pongs == [b"abc"]


# -- ends ------------------------------------------------------------------------------------------


async def test_what_breaks_the_protocol_closes_the_connection_once() -> None:
    gateway = Gateway()
    client = gateway.connect()
    client.receive(b"{}", reserved=True)
    client.receive(b"\x00", Opcode.BINARY)
    await client.say()
    assert client.transport.close is not None
    assert client.transport.close[0] == 1002
    assert len(gateway.registry) == 0
    assert client.connection.session.over
    assert gateway.source.calls == []


async def test_a_closed_tab_is_no_cancel() -> None:
    gateway = Gateway()
    client = gateway.connect()
    await client.say()
    await settle()
    client.receive(kind=Opcode.CLOSE)
    assert client.transport.disconnected
    client.connection.disconnected()
    client.connection.disconnected()
    assert len(gateway.registry) == 0
    for token in "ab":
        gateway.clock.turn(50.0)
        await settle()
        assert gateway.source.open_calls == 1
        gateway.call.push(token)
    gateway.call.finish()
    await settle()
    assert gateway.stream(client).state is ResponseState.COMPLETED


async def test_a_connection_that_has_closed_is_not_asked_anything() -> None:
    gateway = Gateway()
    client = gateway.connect()
    client.connection.close(4009, "replaced")
    client.connection.on_due(0)
    gateway.clock.turn(100.0)
    assert client.transport.pings == 0
    assert client.transport.close == (4009, "replaced")


async def test_a_client_that_does_not_answer_the_close_frame_is_cut_off() -> None:
    gateway = Gateway()
    client = gateway.connect()
    client.connection.close(1001, "leaving")
    assert len(gateway.registry) == 0
    began = gateway.clock.now
    while not client.transport.disconnected and gateway.clock.now < began + 60:
        gateway.clock.turn(0.1)
    assert CLOSE_SECONDS <= gateway.clock.now - began < CLOSE_SECONDS + 1


@pytest.mark.parametrize("stopped", [15.0, 65.0, 600.0])
async def test_a_process_that_was_stopped_pings_its_clients_before_it_judges_them(
    stopped: float,
) -> None:
    gateway = Gateway()
    clients = [gateway.connect() for _ in range(20)]
    answered = [0] * len(clients)

    def pass_seconds(seconds: int) -> None:
        for _ in range(seconds):
            gateway.clock.turn(1.0)
            for number, client in enumerate(clients):
                if client.transport.pings > answered[number]:
                    answered[number] = client.transport.pings
                    client.receive(kind=Opcode.PONG)

    pass_seconds(47)
    gateway.clock.now += stopped
    gateway.clock.turn_late()
    pass_seconds(200)
    assert [client.transport.close for client in clients] == [None] * len(clients)
    gateway.clock.turn(80.0)
    assert len(gateway.registry) == 0, "who answers nothing is given up"


async def test_a_connection_that_is_gone_waits_for_no_garbage_collector() -> None:
    gateway = Gateway()
    client = gateway.connect()
    await client.say()
    await settle()
    transport, connection = weakref.ref(client.transport), client.connection
    gc.disable()
    try:
        connection.disconnected()
        del client
        assert transport() is None, "nothing of a client that is gone leads to its transport"
    finally:
        gc.enable()


# -- registry --------------------------------------------------------------------------------------


async def test_connections_are_counted_by_session_and_removed_once() -> None:
    gateway = Gateway()
    clients = [gateway.connect() for _ in range(3)]
    assert (
        list(gateway.registry)
        == list(gateway.registry.of(CHANNEL))
        == [client.connection for client in clients]
    )
    gateway.registry.remove(clients[1].connection)
    gateway.registry.remove(clients[1].connection)
    assert len(gateway.registry) == 2
    assert list(gateway.registry.of(Channel("x", "y", "z"))) == []


async def test_one_that_floods_is_counted_and_not_read() -> None:
    gateway = Gateway(Limits(frames_per_second=50))
    client = gateway.connect()
    for _ in range(101):
        client.receive(kind=Opcode.PONG)
    assert client.transport.close is not None
    assert client.transport.close[0] == 1008
    assert not client.transport.reads
    assert gateway.task.count(catalogue.FLOODS) == 1
    assert len(gateway.registry) == 0
