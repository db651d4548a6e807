"""What a request says of its turn: that it can wait, or when its first token is wanted."""

from __future__ import annotations

import asyncio

import aiohttp

from tests.integration.chat_client import demo
from tests.integration.conftest import Serve
from tests.integration.openai.completions import Completions, asking

_LONG = demo(tokens=5000, gap_ms=20)
_QUICK = demo(tokens=2)


async def test_who_is_wanted_first_is_answered_first_and_who_can_wait_last(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    server = await serve(generations_per_node=1)
    completions = Completions(http, server)
    order: list[str] = []

    async def ask(name: str, tier: str = "auto", **headers: str) -> None:
        answer = await completions.post(asking(_QUICK, service_tier=tier), **headers)
        assert answer.status == 200
        order.append(name)

    asked = []
    async with completions.open(_LONG) as running:
        assert running.status == 200
        for waiting, call in enumerate(
            (
                ask("can wait", tier="flex"),
                ask("whenever"),
                ask("in a minute", x_slo_ttft_ms="60000"),
                ask("now", x_slo_ttft_ms="100"),
            )
        ):
            asked.append(asyncio.create_task(call))
            await server.until_metric("queue_depth", waiting + 1)
    await asyncio.gather(*asked)
    assert order == ["now", "in a minute", "whenever", "can wait"]


async def test_a_time_that_is_no_number_is_refused(
    completions: Completions,
) -> None:
    refused = await completions.post(asking(_QUICK), x_slo_ttft_ms="soon")
    assert (refused.status, refused.error["param"]) == (400, "x-slo-ttft-ms")
