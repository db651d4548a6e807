"""What the log says of readers, refusals and closes, over every transport."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import pytest

from stream_core.policy.limits import Limits
from stream_core.protocol.client_session import Opcode
from stream_core.protocol.dialect import COMPACT, V1
from stream_core.records.connection_records import CloseRecord, RefusalRecord, SlowReaderRecord
from stream_core.records.event_record import EventRecord
from stream_core.records.reader_record import ReaderRecord
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Client, Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, EventStream
from tests.unit.settle import settle

_Record = TypeVar("_Record", bound=EventRecord)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO")
    return caplog


def logged(log: pytest.LogCaptureFixture, kind: type[_Record]) -> list[_Record]:
    """The records of a kind, in order."""
    found: list[Any] = [made.msg for made in log.records]
    return [record for record in found if isinstance(record, kind)]


async def _asked(gateway: Gateway, protocol: str = V1) -> tuple[Client, Calls, str]:
    """A client has asked, and the model has said one word."""
    client = gateway.connect(protocol)
    await client.say()
    await settle()
    gateway.call.push("Even")
    calls = Calls(gateway.context, CHANNEL)
    return client, calls, f"/chat/message/{gateway.stream(client).response_id}"


async def test_a_reader_over_each_transport_has_its_line(log: pytest.LogCaptureFixture) -> None:
    gateway = Gateway()
    _, calls, path = await _asked(gateway, COMPACT)
    events = EventStream(calls, f"{path}/events")
    await settle()
    gateway.clock.turn(0.5)
    gateway.call.push("flow")
    gateway.call.finish()
    await settle()
    await events.answering
    await calls.call("GET", path)
    await calls.call("GET", path.replace("chat/message", "streams"))
    lines = logged(log, ReaderRecord)
    assert [(line.protocol, line.transport, line.left) for line in lines] == [
        (COMPACT, "recording", "ended"),
        ("evenflow", "sse", "ended"),
        ("evenflow", "poll", "ended"),
        ("durable_streams", "http", "ended"),
    ]
    assert [line.transport_before for line in lines] == [None, "recording", "sse", "poll"]
    assert {line.entries_delivered for line in lines} == {2}
    assert {line.session for line in lines} == {CHANNEL.session_digest}


async def test_a_call_that_is_answered_before_the_end_is_nobody_who_left(
    log: pytest.LogCaptureFixture,
) -> None:
    gateway = Gateway()
    _, calls, path = await _asked(gateway)
    streams = path.replace("chat/message", "streams")
    for asked in (f"{path}?timeout_ms=0", f"{streams}?offset=-1&live=long-poll", streams):
        await calls.call("GET", asked)
    lines = logged(log, ReaderRecord)
    assert [(line.protocol, line.transport, line.left) for line in lines] == [
        ("evenflow", "poll", "answered"),
        ("durable_streams", "poll", "answered"),
        ("durable_streams", "http", "answered"),
    ]
    gateway.call.finish()
    await settle()


async def test_a_task_that_copies_an_answer_is_no_client(log: pytest.LogCaptureFixture) -> None:
    gateway = Gateway()
    _, calls, path = await _asked(gateway)
    response_id = path.rpartition("/")[2]
    peer = EventStream(calls, f"{path}/events?joined=0", calls.as_peer(response_id))
    await settle()
    gateway.call.finish()
    await settle()
    await peer.answering
    assert {line.protocol for line in logged(log, ReaderRecord)} == {V1, "peer"}


async def test_who_closes_is_told_with_the_code(log: pytest.LogCaptureFixture) -> None:
    gateway = Gateway()
    client, _, _ = await _asked(gateway)
    gateway.clock.turn(2.0)
    client.receive(b"\x03\xe8", kind=Opcode.CLOSE)
    gateway.connect().connection.close(4009, "replaced")
    gateway.connect().connection.disconnected()
    assert [(line.code, line.by, line.reading) for line in logged(log, CloseRecord)] == [
        (1000, "client", 1),
        (4009, "server", 0),
        (None, "client", 0),
    ]
    assert logged(log, CloseRecord)[0].duration_ms == pytest.approx(2000, abs=10)
    (line,) = logged(log, ReaderRecord)
    assert (line.left, line.entries_delivered) == ("gone", 1)
    gateway.call.finish()
    await settle()


async def test_a_client_without_a_pong_is_a_close_with_its_own_code(
    log: pytest.LogCaptureFixture,
) -> None:
    gateway = Gateway()
    gateway.connect()
    gateway.clock.turn(gateway.limits.pong_timeout_seconds + gateway.limits.heartbeat_seconds)
    (line,) = logged(log, CloseRecord)
    assert (line.code, line.by, line.kind) == (4010, "server", "close 4010 server")


async def test_what_is_refused_is_told_by_its_code_over_every_transport(
    log: pytest.LogCaptureFixture,
) -> None:
    gateway = Gateway()
    client = gateway.connect()
    client.send("response.resume", response_id="rsp_unknown", after=-1)
    await settle()
    client.connection.ask_to_reconnect("leaving", 0)
    await client.say()
    calls = Calls(gateway.context, CHANNEL)
    await calls.call("GET", "/chat/message/rsp_unknown")
    await calls.call("GET", "/nothing?text=secret")
    await calls.call("POST", "/v1/messages", {"Authorization": "Bearer wrong"})
    lines = logged(log, RefusalRecord)
    assert [(line.what, line.code) for line in lines] == [
        ("response.resume", "response_not_found"),
        ("chat.message", "draining"),
        ("GET /chat/message/{response_id}", "response_not_found"),
        ("GET of no path", "path_not_found"),
        ("POST /v1/messages", lines[4].code),
    ]
    assert [line.transport for line in lines] == ["recording"] * 2 + ["http"] * 3
    assert "secret" not in log.text


async def test_a_reader_that_lags_is_told_and_then_let_go(log: pytest.LogCaptureFixture) -> None:
    gateway = Gateway(Limits(lag_notice_seconds=2, lag_close_seconds=4))
    client, _, _ = await _asked(gateway)
    client.connection.block()
    for _ in range(60):
        gateway.call.push("x")
        gateway.clock.turn(0.1)
        client.connection.look_at_readers(gateway.clock.now)
        await asyncio.sleep(0)
    lines = logged(log, SlowReaderRecord)
    assert [line.let_go for line in lines] == [False, True]
    assert lines[1].behind_entries > 0
    assert lines[1].behind_ms >= 4000
    (reader,) = logged(log, ReaderRecord)
    assert (reader.left, reader.lags) == ("too_slow", 1)
    assert reader.entries_missed > 0
    (close,) = logged(log, CloseRecord)
    assert close.code == 4008
    gateway.call.finish()
    await settle()
