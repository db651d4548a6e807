"""Attacks on the CPU: a few kilobytes that take long to read, and a stored request that is read
again and again.
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
_UNPACKED_TIMES = 95
"""By how much a body may grow when it is unpacked: the server allows a hundred times."""
_MANY_ITEMS = 4_000
"""Nearly as many messages or items as a request may have."""
# This machine's own addresses are not rated: the attacker is one behind a proxy.
_FORWARDED = {"X-Forwarded-For": "203.0.113.66", "Content-Type": "application/json"}
_CHAT, _RESPONSES = "/v1/chat/completions", "/v1/responses"
_MESSAGE = {"role": "user", "content": "a"}
_PART = {"type": "text", "text": "a"}
_TOOL = {"type": "function", "function": {"name": "a"}}


def _chat(**more: Any) -> dict[str, Any]:
    return {"model": "demo", "max_tokens": 1, "messages": [_MESSAGE], **more}


def _bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Paths and bodies. Some bodies are within all bounds."""
    yield _CHAT, _chat(messages=[_MESSAGE] * _MANY_ITEMS)
    yield _CHAT, _chat(messages=[_MESSAGE] * 110_000)
    yield _CHAT, _chat(messages=[{"role": "user", "content": [_PART] * 100_000}])
    yield _CHAT, _chat(tools=[_TOOL] * 75_000)
    yield _CHAT, _chat(x=[0] * 1_900_000)
    yield _CHAT, _chat(x={f"f{number}": number for number in range(240_000)})
    yield _RESPONSES, {"model": "demo", "input": [_MESSAGE] * 110_000}
    yield _RESPONSES, {"model": "demo", "input": "a", "tools": [_TOOL] * 60_000}
    yield "/v1/messages", _chat(messages=[_MESSAGE] * 110_000)
    parts = [{"role": "user", "parts": [_PART]}]
    yield "/api/chat", {"id": "c", "messages": parts * _MANY_ITEMS}
    yield "/api/chat", {"id": "c", "messages": parts * 58_000}
    run = {"threadId": "t", "runId": "r", "messages": [{"id": "1", **_MESSAGE}] * 85_000}
    yield "/agui", run


def _packed(body: dict[str, Any]) -> bytes:
    """A body in gzip, with random text in it, so that it is not packed too well to be unpacked."""
    text = json.dumps(body)
    pad = base64.b64encode(os.urandom(len(text) // _UNPACKED_TIMES)).decode()
    return gzip.compress(json.dumps(body | {"pad": pad}).encode(), 9)


@attack("tiny-values", short=True, fills=(REQUESTS,))
async def tiny_values(scene: Scene) -> None:
    """Eight connections send bodies of some 40 KB that unpack to 4 MB of tiny values."""
    bodies = [(path, _packed(body)) for path, body in _bodies()]
    ends_at, counts = monotonic() + scene.plan.strike_seconds, Counter[str]()

    async def send(number: int) -> None:
        each = itertools.islice(itertools.cycle(bodies), number, None)
        while monotonic() < ends_at:
            path, body = next(each)
            headers = _FORWARDED | {"Content-Encoding": "gzip"} | bearer(session_token())
            with suppress(*BROKEN):
                async with scene.attacker.connection() as connection:
                    connection.send(scene.attacker.request("POST", path, body, headers))
                    counts[_outcome(await connection.reply())] += 1

    await asyncio.gather(*[send(number) for number in range(_SENDERS)])
    scene.did(_summary(counts))
    scene.must(counts["array_above_max_length"] + counts["address_bytes"] > 0, "none was refused")
    scene.must(not counts["internal_error"], "some failed")


@attack("stored-requests", fills=(REQUESTS, "responses_held_bytes"))
async def stored_requests(scene: Scene) -> None:
    """Eight connections read a response with 4,000 items, and continue it, without an end."""
    token = bearer(session_token())
    body = {"model": "demo", "max_output_tokens": 1, "input": [_MESSAGE] * _MANY_ITEMS}
    created = await scene.attacker.call("POST", _RESPONSES, body, _FORWARDED | token)
    scene.must(created.status == 200, f"the response was not made: {created.code}")
    response_id = created.json.get("id")
    path = f"{_RESPONSES}/{response_id}"
    more = json.dumps({"model": "demo", "input": "a", "previous_response_id": response_id})
    calls = (("GET", f"{path}/input_items?limit=1"), ("GET", path), ("POST", _RESPONSES))
    ends_at, counts = monotonic() + scene.plan.strike_seconds, Counter[str]()

    async def read() -> None:
        each = itertools.cycle(calls)
        while monotonic() < ends_at:
            with suppress(*BROKEN):
                async with scene.attacker.connection() as connection:
                    while monotonic() < ends_at and not connection.writer.is_closing():
                        method, where = next(each)
                        data = more.encode() if method == "POST" else b""
                        sent = scene.attacker.request(method, where, data, _FORWARDED | token)
                        connection.send(sent)
                        counts[_outcome(await connection.reply())] += 1

    await asyncio.gather(*[read() for _ in range(_SENDERS)])
    scene.did(_summary(counts))
    scene.must(counts["200"] > 0, "none was answered")


def _outcome(reply: Reply) -> str:
    return "200" if reply.status == 200 else reply.code


def _summary(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.most_common())
