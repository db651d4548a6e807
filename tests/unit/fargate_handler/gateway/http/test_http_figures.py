from __future__ import annotations

from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from evenflow.fargate_handler.gateway.http.http_figures import HttpFigures
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.metrics import metric_catalogue as catalogue


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


async def answered(figures: HttpFigures, path: str, status: int) -> None:
    request = make_mocked_request("GET", path)
    cast("Any", request.match_info.route).resource = None

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status)

    await figures.count_answer(request, await figures.note_begin(request, answer))


async def test_a_key_that_is_refused_is_counted(metrics: Metrics) -> None:
    figures = HttpFigures(metrics)
    for status in (200, 401, 403, 404):
        await answered(figures, "/v1/models", status)
    figures.count_handshake(401)
    figures.count_handshake(101)
    rate = metrics.ratio(catalogue.UNAUTHORIZED_RATE)
    assert (rate.part, rate.whole) == (3, 6)
    assert metrics.labelled(catalogue.HTTP_ANSWERS).by_labels == {
        ("other", "200"): 1,
        ("other", "401"): 1,
        ("other", "403"): 1,
        ("other", "404"): 1,
        ("websocket", "401"): 1,
        ("websocket", "101"): 1,
    }
    assert metrics.divided(catalogue.HTTP_ANSWER_TIME).count == 4


async def test_what_operators_ask_for_all_the_time_is_not(metrics: Metrics) -> None:
    await answered(HttpFigures(metrics, {"/health"}), "/health", 200)
    assert metrics.ratio(catalogue.UNAUTHORIZED_RATE).whole == 0
    assert metrics.divided(catalogue.HTTP_ANSWER_TIME).count == 0
