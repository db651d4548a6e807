"""`GET /metrics`: for this machine, or at a port of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiohttp import web

from evenflow.stream_core.metrics import metric_catalogue as catalogue
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, body_of
from tests.unit.fargate_handler.measured import metrics_of
from tests.unit.settle import settle


def _calls(metrics_port: int | None = None) -> Calls:
    context = Gateway().context
    site = replace(context.site, metrics_port=metrics_port)
    context = replace(context, metrics=metrics_of(None), site=site)
    return Calls(context, CHANNEL)


def _is_nowhere(answer: web.StreamResponse) -> bool:
    return (answer.status, body_of(answer)["error"]["code"]) == (404, "path_not_found")


@pytest.mark.parametrize("remote", ["127.0.0.1", "::1"])
async def test_this_machine_reads_them(remote: str) -> None:
    answer = await _calls().call("GET", "/metrics", remote=remote)
    assert isinstance(answer, web.Response)
    assert answer.status == 200
    assert isinstance(answer.body, bytes)
    assert b"evenflow_ws_active_connections" in answer.body


@pytest.mark.parametrize("remote", ["10.0.1.5", "127.0.0.2", "::ffff:10.0.1.5", "", None])
async def test_elsewhere_there_is_no_such_path(remote: str | None) -> None:
    assert _is_nowhere(await _calls().call("GET", "/metrics", remote=remote))


@pytest.mark.parametrize(
    "header",
    [
        ("Origin", "http://127.0.0.1:8080"),
        ("Forwarded", "for=10.0.1.5"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Proto", "https"),
        ("X-Real-IP", "10.0.1.5"),
        ("Via", "1.1 proxy"),
    ],
)
async def test_a_page_or_a_proxy_on_this_machine_speaks_for_somebody_else(
    header: tuple[str, str],
) -> None:
    assert _is_nowhere(await _calls().call("GET", "/metrics", dict([header])))


async def test_requests_of_clients_are_counted_by_their_protocol() -> None:
    calls = _calls()
    for path in ("/v1/models", "/v1/models/nothing", "/openapi.json", "/health", "/nothing"):
        await calls.call("GET", path)
    answer = await calls.call("GET", "/metrics")
    assert isinstance(answer, web.Response)
    assert isinstance(answer.body, bytes)
    counted = [line for line in answer.body.splitlines() if b"http_requests_total{" in line]
    assert counted == [
        b'evenflow_http_requests_total{protocol="evenflow"} 1.0',
        b'evenflow_http_requests_total{protocol="openai_chat"} 2.0',
    ]


class TestAtAPortOfItsOwn:
    async def test_scrapers_elsewhere_read_them(self) -> None:
        calls = _calls(metrics_port=9090)
        answer = await calls.call("GET", "/metrics", remote="10.0.1.5", port=9090)
        assert answer.status == 200

    async def test_they_are_nowhere_else(self) -> None:
        assert _is_nowhere(await _calls(metrics_port=9090).call("GET", "/metrics"))

    @pytest.mark.parametrize("path", ["/health", "/v1/models", "/", "/ws", "/nothing"])
    async def test_nothing_else_is_there(self, path: str) -> None:
        assert _is_nowhere(await _calls(metrics_port=9090).call("GET", path, port=9090))


async def test_the_polls_of_a_long_answer_are_counted_for_each_half_minute() -> None:
    gateway = Gateway()
    client = gateway.connect()
    await client.say("m1")
    await settle()
    gateway.call.push("So")
    gateway.clock.turn(60.0)
    gateway.call.finish()
    await settle()
    calls = Calls(gateway.context, CHANNEL)
    for _ in range(3):
        await calls.json("GET", f"/chat/message/{gateway.stream(client).response_id}")
    counts = gateway.metrics.distribution(catalogue.POLL_COUNT)
    assert counts.count == 3
    assert counts.total == pytest.approx((1 + 2 + 3) / 2, rel=0.05)
