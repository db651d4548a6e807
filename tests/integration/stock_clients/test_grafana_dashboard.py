"""The queries of the Grafana dashboard, by a real Prometheus that scrapes a real handler."""

from __future__ import annotations

import math
from pathlib import Path

import aiohttp

from stream_core.metrics import metric_catalogue as catalogue
from stream_core.metrics.metric_catalogue import CATALOGUE
from tests.integration.chat_client import call, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.stock_clients.prometheus_server import Prometheus, prometheus
from tests.unit.test_grafana_dashboard import PANELS, named

# What a quiet minute has none of: their labels come with the first event.
_NOT_PROVOKED = {
    f"{metric.prometheus_name}_total"
    for metric in CATALOGUE
    if metric.labels
    and metric.name
    in (
        "connections.cut",
        "drain.answers",
        "drain.connections",
        "http.refused",
        "log.lines_dropped",
        "messages.refused",
        "upstream.failures",
    )
}


_ANSWERED = {
    "agent": "demo",
    "model": "demo",
    "protocol": "evenflow.v1",
    "state": "completed",
    "reason": "stop",
}


def _filled(query: str) -> str:
    """As Grafana fills its variables in."""
    return query.replace("$__rate_interval", "1m").replace("$instance", ".*")


async def _converse(opened: OpenSession, serve: Serve, http: aiohttp.ClientSession) -> str:
    """Two answers on a connection that ends. Returns the address of the server."""
    server = await serve()
    session = await opened(server)
    async with session.connect() as connection:
        await connection.ask("m1", None, demo(tokens=20, gap_ms=5))
        await connection.ask("m2", "m1", demo(tokens=20, gap_ms=5))
    await call(http, "GET", f"{server.http_url}/health")
    return server.http_url.removeprefix("http://")


async def _check(server: Prometheus) -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            found = await server.query(_filled(target["expr"]))
            assert found or named(panel) <= _NOT_PROVOKED, f"{panel['title']} shows nothing"


async def test_every_panel_shows_something_of_a_handler_that_answers(
    opened: OpenSession, serve: Serve, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    target = await _converse(opened, serve, http)
    async with prometheus(http, target, tmp_path) as server:
        await server.wait_for("sum(evenflow_responses_completed_total)", 2)
        # A rate needs two scrapes, and a node's load a second.
        await server.wait_for("min(count_over_time(evenflow_node_load_percent[1m]))", 8)
        await _check(server)
        p99 = await server.value(
            "histogram_quantile(0.99, sum by (le) (evenflow_model_first_token_ms_bucket))"
        )
        assert not math.isnan(p99)
        ended = await server.query("evenflow_responses_ended_total")
        assert [
            (
                {name: it["metric"][name] for name in catalogue.RESPONSES_ENDED.labels},
                it["value"][1],
            )
            for it in ended
        ] == [(_ANSWERED, "2")]
        assert await server.value("evenflow_node_load_percent") > 0
