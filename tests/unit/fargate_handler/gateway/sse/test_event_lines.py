"""What the log says of readers, refusals and closes, over every transport."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import pytest

from evenflow.fargate_handler.gateway.http.cookies import EVENTS_COOKIE
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics.metric_catalogue import MESSAGES_REFUSED
from evenflow.stream_core.protocols.evenflow.dialect import COMPACT, REALTIME, V1
from evenflow.stream_core.protocols.evenflow.socket_session import Opcode
from evenflow.stream_core.records.connection_records import (
    CloseRecord,
    RejectionRecord,
    SlowReaderRecord,
)
from evenflow.stream_core.records.event_record import EventRecord
from evenflow.stream_core.records.reader_record import ReaderRecord
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
        (1006, "client", 0),
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
    lines = logged(log, RejectionRecord)
    assert [(line.what, line.code) for line in lines] == [
        ("response.resume", "response_not_found"),
        ("chat.message", "draining"),
        ("GET /chat/message/{response_id}", "response_not_found"),
        ("GET of no path", "path_not_found"),
        ("POST /v1/messages", lines[4].code),
    ]
    assert [line.transport for line in lines] == ["recording"] * 2 + ["http"] * 3
    assert "secret" not in log.text


@pytest.mark.parametrize(
    ("protocol", "frame", "what", "code"),
    [
        (V1, b"{", "frame", "invalid_json"),
        (V1, b'["my secret"]', "frame", "invalid_field"),
        (V1, b'{"type":"my secret"}', "frame", "unknown_type"),
        (V1, b'{"type":["chat.message"]}', "frame", "unknown_type"),
        (V1, b'{"type":"chat.message","message_id":"m1"}', "chat.message", "invalid_field"),
        (REALTIME, b'{"type":"start","id":"m1"}', "start", "invalid_field"),
    ],
)
async def test_a_frame_that_is_not_understood_has_its_line_and_is_no_message(
    log: pytest.LogCaptureFixture, protocol: str, frame: bytes, what: str, code: str
) -> None:
    gateway = Gateway()
    gateway.connect(protocol).receive(frame)
    (line,) = logged(log, RejectionRecord)
    assert (line.what, line.code, line.status) == (what, code, 400)
    assert (line.tenant, line.transport) == (CHANNEL.tenant, "recording")
    assert gateway.metrics.labelled(MESSAGES_REFUSED).by_labels == {}
    assert "secret" not in log.text


async def test_a_frame_that_comes_too_fast_says_when_it_may_come_again(
    log: pytest.LogCaptureFixture,
) -> None:
    gateway = Gateway(Limits(messages_per_second=1))
    client = gateway.connect()
    for _ in range(3):
        client.send("response.pause", response_id="rsp_1")
    line = logged(log, RejectionRecord)[-1]
    assert (line.what, line.code, line.status) == ("response.pause", "rate_limited", 429)
    assert line.retry_after_ms == client.frames[-1]["retry_after_ms"]
    client.connection.ask_to_reconnect("leaving", 0)
    gateway.clock.now += 10
    await client.say()
    line = logged(log, RejectionRecord)[-1]
    assert (line.code, line.status, line.retry_after_ms) == ("draining", 503, 1000)


@pytest.mark.parametrize(
    ("method", "path", "tenant"),
    [
        ("GET", "/chat/message/rsp_unknown", "acme"),
        ("GET", "/chat/message/rsp_unknown/events", "acme"),
        ("GET", "/streams/rsp_unknown", "acme"),
        ("GET", f"/session/{CHANNEL.session}/messages", "acme"),
        ("POST", "/v1/chat/completions", "acme"),
        ("GET", "/nothing", None),
    ],
)
async def test_a_refused_request_names_its_tenant_where_its_token_does(
    log: pytest.LogCaptureFixture, method: str, path: str, tenant: str | None
) -> None:
    calls = Calls(Gateway().context, Channel("acme", "demo", "ses_2"))
    await calls.call(method, path)
    (line,) = logged(log, RejectionRecord)
    assert line.tenant == tenant


async def test_a_wrong_token_names_no_tenant(log: pytest.LogCaptureFixture) -> None:
    calls = Calls(Gateway().context, CHANNEL)
    await calls.call("GET", "/chat/message/rsp_unknown", {"Authorization": "Bearer wrong"})
    (line,) = logged(log, RejectionRecord)
    assert line.tenant is None


async def test_the_cookie_of_events_names_their_tenant(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Gateway().context
    ticket, _ = context.access.tokens.issue(
        CHANNEL, context.wall_time(), 60, only_for="rsp_unknown"
    )
    path = "/chat/message/rsp_unknown/events"
    calls = Calls(context, CHANNEL)
    monkeypatch.setattr(calls, "_headers", {"Cookie": f"{EVENTS_COOKIE}={ticket}"})
    await calls.call("GET", path)
    (line,) = logged(log, RejectionRecord)
    assert (line.code, line.tenant) == ("response_not_found", CHANNEL.tenant)


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
