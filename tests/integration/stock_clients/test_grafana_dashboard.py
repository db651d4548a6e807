"""The queries of the Grafana dashboard, by a real Prometheus that scrapes a real handler."""

from __future__ import annotations

import math
from operator import itemgetter
from pathlib import Path

import aiohttp

from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.metric_catalogue import CATALOGUE
from tests.integration.chat_client import ChatSession, call, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.stock_clients.prometheus_server import Prometheus, prometheus
from tests.unit.test_grafana_dashboard import PANELS, named

# What a quiet minute has none of.
_NOT_PROVOKED = {
    metric.prometheus_name + end
    for metric in CATALOGUE
    for end in ("_total", "_part_total", "_whole_total", "_bucket")
    if metric.name
    in (
        # Their labels come with the first event.
        "connections.cut",
        "drain.answers",
        "drain.connections",
        "http.refused",
        "filter.held_ms",
        "filter.matches",
        "log.lines_dropped",
        "messages.refused",
        "messages.shadow_refusals",
        "queue.service",
        "upstream.failures",
        # Of the connections and answers at the end of a minute, for which nobody waits here.
        "generations.silent_rate",
        "ws.dead_connections_rate",
        "ws.reset_rate",
    )
}


_ANSWERED = {
    "agent": "demo",
    "model": "demo",
    "state": "completed",
    "reason": "stop",
}


def _filled(query: str) -> str:
    """As Grafana fills its variables in."""
    return query.replace("$__rate_interval", "1m").replace("$instance", ".*")


async def _converse(session: ChatSession) -> None:
    """Two answers over a connection, one of them given again, and one over polls."""
    async with session.connect() as connection:
        first = (await connection.message("m1", None, demo(tokens=20, gap_ms=5)))["response_id"]
        await connection.whole(first)
        second = (await connection.message("m2", "m1", demo(tokens=40, gap_ms=10)))["response_id"]
        for given, acknowledged in ((1, 0), (6, 6)):
            await connection.reach(second, given)
            await connection.send("response.ack", response_id=second, index=acknowledged)
        await connection.whole(second)
        await connection.resume(first, -1)
        await connection.whole(first)
    await session.poll_whole((await session.post("m3", "m2", demo(tokens=5))).json["response_id"])


async def _check(server: Prometheus) -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            found = await server.query(_filled(target["expr"]))
            if named(panel) <= _NOT_PROVOKED:
                continue
            assert found, f"{panel['title']} shows nothing"
            numbers = [float(it["value"][1]) for it in found]
            assert not any(map(math.isnan, numbers)), f"{panel['title']} shows no number"


async def test_every_panel_shows_something_of_a_handler_that_answers(
    opened: OpenSession, serve: Serve, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    handler = await serve()
    session = await opened(handler)
    await call(http, "GET", f"{handler.http_url}/health")
    async with prometheus(http, handler.http_url.removeprefix("http://"), tmp_path) as server:
        # A rate is of what comes after a scrape.
        await server.wait_for("evenflow_responses_completed_total + 1", 1)
        await _converse(session)
        await server.wait_for("sum(evenflow_responses_completed_total)", 3)
        # A node's load is of a second.
        await server.wait_for("min(count_over_time(evenflow_node_load_percent[1m]))", 8)
        await _check(server)
        p99 = await server.value(
            "histogram_quantile(0.99, sum by (le) (evenflow_model_first_token_ms_bucket))"
        )
        assert not math.isnan(p99)
        ended = await server.query("evenflow_responses_ended_total")
        labels = catalogue.RESPONSES_ENDED.labels
        told = [({name: it["metric"][name] for name in labels}, it["value"][1]) for it in ended]
        assert sorted(told, key=itemgetter(1)) == [
            (_ANSWERED | {"protocol": "evenflow"}, "1"),
            (_ANSWERED | {"protocol": "evenflow.v1"}, "2"),
        ]
        assert await server.value("evenflow_node_load_percent") > 0
