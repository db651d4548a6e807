"""A model whose answers have planted secrets, cut as the test wants."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from aiohttp import web

from tests.filtering.planted import planted_secret
from tests.integration.scripted_model import DONE, END, chunk, event

_PROSE = (
    "The risk-free way is to ask first. ", "Here is what you asked for: ", "\nand besides: ",
    "It begins so: AKIA, sk- or eyJ. ", "(see https://hooks.example.com) ", "key=", '"',
)  # fmt: skip
PLACES = ("content", "reasoning_content", "arguments", "reasoning_details")
_LONGEST_PIECE = 12


@dataclass
class Plan:
    """One answer.

    Args:
        place: where its text goes: `PLACES`.
        gap: seconds from piece to piece.
        sent_at: when each piece was sent, in seconds of `time.monotonic`.
    """

    pieces: list[str]
    secrets: list[str] = field(default_factory=list)
    place: str = "content"
    gap: float = 0.0
    sent_at: list[float] = field(default_factory=list)


def plan_of(random: Random, first: int, count: int, place: str) -> Plan:
    """A plan with so many secrets; the one with number `n` is cut behind its character `n`, over
    and over, and at chance.
    """
    pieces: list[str] = []
    secrets = []
    for number in range(first, first + count):
        secret = planted_secret(random, number)
        secrets.append(secret)
        pieces += _cut(random, random.choice(_PROSE), 0)
        pieces += _cut(random, secret, number % len(secret))
        pieces += [" ", "\n", ", ", '" '][number % 4]
    return Plan(pieces, secrets, place)


def _cut(random: Random, text: str, at: int) -> Iterator[str]:
    ends = {0, at, len(text)}
    place = 0
    while (place := place + random.randint(1, _LONGEST_PIECE)) < len(text):
        ends.add(place)
    for first, end in pairwise(sorted(ends)):
        yield text[first:end]


@dataclass
class PlantingModel:
    """Answers `plan 7` with the plan of that number."""

    plans: dict[int, Plan] = field(default_factory=dict)
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/chat/completions`."""
        asked = (await request.json())["messages"][-1]["content"]
        text = asked if isinstance(asked, str) else asked[-1]["text"]
        plan = self.plans[int(text.split()[1])]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        plan.sent_at.clear()
        if plan.place == "arguments":
            begun = {"id": "call_1", "type": "function"}
            await response.write(_call(begun | {"function": {"name": "look", "arguments": ""}}))
        for piece in plan.pieces:
            plan.sent_at.append(time.monotonic())
            await response.write(_said(plan.place, piece))
            await asyncio.sleep(plan.gap)
        await response.write(END if plan.place != "arguments" else _ends_with_calls())
        return response


def _said(place: str, text: str) -> bytes:
    if place == "arguments":
        return _call({"function": {"arguments": text}})
    if place == "reasoning_details":  # told twice, and again by a field that nobody knows
        entry = {"type": "reasoning.text", "index": len(text) % 3, "text": text}
        return _chunk_of({"reasoning": text, place: [entry], "thinking": text})
    return _chunk_of({place: text})


def _call(call: dict[str, object]) -> bytes:
    return _chunk_of({"tool_calls": [{"index": 0, **call}]})


def _chunk_of(delta: dict[str, object]) -> bytes:
    choices = [{"index": 0, "delta": delta}]
    return event({"id": "c1", "object": "chat.completion.chunk", "choices": choices})


def _ends_with_calls() -> bytes:
    return chunk(finish_reason="tool_calls") + DONE


@asynccontextmanager
async def planting_model() -> AsyncIterator[PlantingModel]:
    """Serve one on a free port."""
    model = PlantingModel()
    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", model.answer)])
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    model.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield model
    finally:
        await runner.cleanup()
