"""The smallest protocol, the one of docs/adding-a-protocol.md, from its route to its bytes."""

from __future__ import annotations

import asyncio

from aiohttp import web

from evenflow.fargate_handler.gateway.http.call_intake import CallIntake
from evenflow.stream_core.auth.rights import Right
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import UpstreamRejected
from evenflow.stream_core.http.routes import Bound, Credential, Route, Terms
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, RecordingWriter
from tests.unit.fargate_handler.gateway.text_protocol import TextEndpoint
from tests.unit.settle import settle

_ROUTE = Route("GET", "/say", Terms(Credential.SESSION, Right.WRITE, 2, Bound.ANSWER))


class Saying:
    """One call of it."""

    def __init__(self, gateway: Gateway) -> None:
        endpoint = TextEndpoint(gateway.context).get
        admitted = CallIntake(gateway.context).admitted(_ROUTE, endpoint)
        served = web.get(_ROUTE.path, admitted)
        calls = Calls(gateway.context, Channel("public", "demo", "ses_1"), served)
        self.writer = RecordingWriter()
        self.answering = asyncio.create_task(calls.call("GET", "/say?text=hi", writer=self.writer))


async def test_its_events_are_the_answer() -> None:
    gateway = Gateway()
    saying = Saying(gateway)
    await settle()
    gateway.call.push("one")
    await settle()
    assert saying.writer.written == b'data: "one"\n\n', "it doesn't wait for the end"
    gateway.call.push(" two")
    gateway.call.finish()
    await settle()
    answer = await saying.answering
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert saying.writer.written == b'data: "one"\n\ndata: " two"\n\nevent: end\ndata: {}\n\n'


async def test_an_error_before_the_first_event_is_a_status() -> None:
    gateway = Gateway()
    saying = Saying(gateway)
    await settle()
    gateway.call.fail(UpstreamRejected("it broke", code="upstream_failed"))
    await settle()
    assert (await saying.answering).status == 502


async def test_an_error_behind_an_event_is_an_event() -> None:
    gateway = Gateway()
    saying = Saying(gateway)
    await settle()
    gateway.call.push("one")
    gateway.call.fail(UpstreamRejected("it broke", code="upstream_failed"))
    await settle()
    assert (await saying.answering).status == 200
    assert b'\n\nevent: error\ndata: {"error":' in saying.writer.written
