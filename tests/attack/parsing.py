"""Attacks on the CPU: a few kilobytes that are much work to read, and a stored request again and
again.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic
from typing import Any

from tests.attack.asking import BROKEN
from tests.attack.attack import Scene, attack
from tests.attack.memory import REQUESTS
from tests.attack.tokens import session_token
from tests.attack.wire import Reply, bearer

_SENDERS = 8
_MOST_TIMES = 95
"""What is unpacked may be a hundred times of what is sent."""
_WITHIN = 4_000
"""Messages, or items: as many as a request may have, nearly."""
# This machine's own addresses are not rated: the attacker is one behind a proxy.
_ELSEWHERE = {"X-Forwarded-For": "203.0.113.66", "Content-Type": "application/json"}
_CHAT, _RESPONSES = "/v1/chat/completions", "/v1/responses"
_MESSAGE = {"role": "user", "content": "a"}
_PART = {"type": "text", "text": "a"}
_TOOL = {"type": "function", "function": {"name": "a"}}


def _chat(**more: Any) -> dict[str, Any]:
    return {"model": "demo", "max_tokens": 1, "messages": [_MESSAGE], **more}


def _bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Paths and bodies, some of which are within all bounds."""
    yield _CHAT, _chat(messages=[_MESSAGE] * _WITHIN)
    yield _CHAT, _chat(messages=[_MESSAGE] * 110_000)
    yield _CHAT, _chat(messages=[{"role": "user", "content": [_PART] * 100_000}])
    yield _CHAT, _chat(tools=[_TOOL] * 75_000)
    yield _CHAT, _chat(x=[0] * 1_900_000)
    yield _CHAT, _chat(x={f"f{number}": number for number in range(240_000)})
    yield _RESPONSES, {"model": "demo", "input": [_MESSAGE] * 110_000}
    yield _RESPONSES, {"model": "demo", "input": "a", "tools": [_TOOL] * 60_000}
    yield "/v1/messages", _chat(messages=[_MESSAGE] * 110_000)
    parts = [{"role": "user", "parts": [_PART]}]
    yield "/api/chat", {"id": "c", "messages": parts * _WITHIN}
    yield "/api/chat", {"id": "c", "messages": parts * 58_000}
    run = {"threadId": "t", "runId": "r", "messages": [{"id": "1", **_MESSAGE}] * 85_000}
    yield "/agui", run


def _packed(body: dict[str, Any]) -> bytes:
    """A body as it is sent, with enough in it that can't be packed."""
    text = json.dumps(body)
    pad = base64.b64encode(os.urandom(len(text) // _MOST_TIMES)).decode()
    return gzip.compress(json.dumps(body | {"pad": pad}).encode(), 9)


@attack("tiny-values", short=True, fills=(REQUESTS,))
async def tiny_values(scene: Scene) -> None:
    """Eight connections send bodies of some 40 KB that unpack to 4 MB of tiny values."""
    bodies = [(path, _packed(body)) for path, body in _bodies()]
    until, told = monotonic() + scene.plan.strike_seconds, Counter[str]()

    async def send(number: int) -> None:
        each = itertools.islice(itertools.cycle(bodies), number, None)
        while monotonic() < until:
            path, body = next(each)
            headers = _ELSEWHERE | {"Content-Encoding": "gzip"} | bearer(session_token())
            with suppress(*BROKEN):
                async with scene.attacker.connection() as connection:
                    connection.send(scene.attacker.request("POST", path, body, headers))
                    told[_outcome(await connection.reply())] += 1

    await asyncio.gather(*[send(number) for number in range(_SENDERS)])
    scene.did(_list(told))
    scene.must(told["array_above_max_length"] + told["address_bytes"] > 0, "none was refused")
    scene.must(not told["internal_error"], "some failed")


@attack("stored-requests", fills=(REQUESTS, "responses_held_bytes"))
async def stored_requests(scene: Scene) -> None:
    """Eight connections read a response with 4,000 items, and continue it, without an end."""
    token = bearer(session_token())
    body = {"model": "demo", "max_output_tokens": 1, "input": [_MESSAGE] * _WITHIN}
    made = await scene.attacker.call("POST", _RESPONSES, body, _ELSEWHERE | token)
    scene.must(made.status == 200, f"the response was not made: {made.code}")
    path = f"{_RESPONSES}/{made.json.get('id')}"
    more = json.dumps({"model": "demo", "input": "a", "previous_response_id": made.json.get("id")})
    calls = (("GET", f"{path}/input_items?limit=1"), ("GET", path), ("POST", _RESPONSES))
    until, told = monotonic() + scene.plan.strike_seconds, Counter[str]()

    async def read() -> None:
        each = itertools.cycle(calls)
        while monotonic() < until:
            with suppress(*BROKEN):
                async with scene.attacker.connection() as connection:
                    while monotonic() < until and not connection.writer.is_closing():
                        method, where = next(each)
                        data = more.encode() if method == "POST" else b""
                        sent = scene.attacker.request(method, where, data, _ELSEWHERE | token)
                        connection.send(sent)
                        told[_outcome(await connection.reply())] += 1

    await asyncio.gather(*[read() for _ in range(_SENDERS)])
    scene.did(_list(told))
    scene.must(told["200"] > 0, "none was answered")


def _outcome(reply: Reply) -> str:
    return "200" if reply.status == 200 else reply.code


def _list(told: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in told.most_common())
