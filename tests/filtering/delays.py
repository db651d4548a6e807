"""What filtering costs: how much later text comes, and how soon shown text is taken back."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import accumulate, islice
from pathlib import Path
from random import Random

from tests.filtering.campaign import Node, percentile, running_node
from tests.filtering.planted import planted_secret
from tests.filtering.planting_model import Plan
from tests.integration.chat_client import open_session
from tests.integration.event_stream import read_events

_PIECE = 4
_GAP = 0.03
_DOCS = Path(__file__).resolve().parents[2] / "docs"


async def delays_of_prose(folder: Path, answers: int, **settings: str) -> list[float]:
    """How late each piece of prose comes at its reader, in ms from when the model sent it."""
    text = "".join(path.read_text("utf-8") for path in sorted(_DOCS.glob("*.md")))
    size = min(1_000, len(text) // answers)
    async with running_node(folder, **settings) as node:
        told = await asyncio.gather(
            *(
                _delays(node, number, text[number * size : (number + 1) * size])
                for number in range(answers)
            )
        )
    return [delay for each in told for delay in each]


async def _delays(node: Node, number: int, text: str) -> list[float]:
    pieces = [text[first : first + _PIECE] for first in range(0, len(text), _PIECE)]
    plan = node.model.plans[number] = Plan(pieces, gap=_GAP)
    body = {
        "model": "planting",
        "stream": True,
        "messages": [{"role": "user", "content": f"plan {number}"}],
    }
    came: list[tuple[float, int]] = []
    length = 0
    url = f"{node.server.http_url}/v1/chat/completions"
    async with node.http.post(url, json=body) as stream:
        async for event in read_events(stream):
            if event.data and event.data != "[DONE]":
                for choice in json.loads(event.data)["choices"]:
                    length += len(choice["delta"].get("content") or "")
                    came.append((time.monotonic(), length))
    assert length == len(text)
    arrivals = iter(came)
    at, there = next(arrivals)
    delays = []
    for sent, end in zip(plan.sent_at, accumulate(map(len, pieces)), strict=True):
        while there < end:
            at, there = next(arrivals)
        delays.append((at - sent) * 1_000)
    return delays


async def times_to_restart(folder: Path, answers: int, seed: int) -> list[float]:
    """How long it takes from the last character of a secret to the frame that takes it back."""
    random = Random(seed)
    async with running_node(folder, filtering="retract") as node:
        turns = asyncio.Semaphore(20)

        async def one(number: int) -> float:
            async with turns:
                return await _time_to_restart(node, number, planted_secret(random, 0))

        return await asyncio.gather(*map(one, range(answers)))


async def _time_to_restart(node: Node, number: int, secret: str) -> float:
    before = [f"word {count} " for count in range(8)]
    cut = [secret[first : first + _PIECE] for first in range(0, len(secret), _PIECE)]
    plan = node.model.plans[number] = Plan([*before, *cut, *before], gap=_GAP)
    session = await open_session(node.http, node.server.http_url)
    async with session.connect() as connection:
        await connection.message("m1", None, f"plan {number}")
        await connection.next_of("chat.response.restarted")
        came = time.monotonic()
    sent = next(islice(plan.sent_at, len(before) + len(cut) - 1, None))
    return (came - sent) * 1_000


def summary(values: list[float]) -> str:
    """Their middle and their tail."""
    return f"p50 {percentile(values, 50):.0f} ms, p95 {percentile(values, 95):.0f} ms"
