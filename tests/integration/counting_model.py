"""An OpenAI-compatible server whose words say which call they are from, and that counts the
calls.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.integration.scripted_model import END, chunk

_WORD = re.compile(r"(\d+)\.(\d+):(\d+) ")


def words(count: int, gap_ms: float) -> str:
    """The message that is answered with so many words, one every `gap_ms`."""
    return f"words={count} gap_ms={gap_ms}"


def word_of(epoch: int, attempt: int, number: int) -> str:
    """A word of the answer to one call."""
    return f"{epoch}.{attempt}:{number} "


def words_of(text: str) -> list[tuple[int, int, int]]:
    """The epoch, the attempt and the number of each word; the text must be made of whole words."""
    found = [
        (int(epoch), int(attempt), int(number)) for epoch, attempt, number in _WORD.findall(text)
    ]
    assert "".join(word_of(*word) for word in found) == text, f"these are no whole words: {text!r}"
    return found


@dataclass
class CountingModel:
    """`calls`: by the header Idempotency-Key, `<response_id>:<epoch>:<attempt>`.

    `questions`: the calls by what was asked.

    `prefixes`: what such a call was to continue.
    """

    url: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    questions: Counter[str] = field(default_factory=Counter)
    prefixes: dict[str, str] = field(default_factory=dict)
    _allowed: float = math.inf
    _allowed_more: asyncio.Event = field(default_factory=asyncio.Event)

    def allow(self, words: float) -> None:
        """From now on a response's first owner is told so many words at most, until more are
        allowed.
        """
        self._allowed = words
        self._allowed_more.set()

    async def _may_say(self, epoch: int, number: int) -> None:
        while epoch == 1 and number >= self._allowed:
            self._allowed_more.clear()
            await self._allowed_more.wait()

    def calls_for(self, response_id: str) -> list[str]:
        """The calls for one response, as `epoch:attempt`, in the order in which they came."""
        found = (key.split(":", 1) for key in self.calls.elements())
        return [call for of, call in found if of == response_id]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/chat/completions`."""
        key, body = request.headers["Idempotency-Key"], await request.json()
        self.calls[key] += 1
        prefix = _prefix(body)
        self.prefixes[key] = prefix
        _, epoch, attempt = key.split(":")
        question = body["messages"][-2 if prefix else -1]["content"]
        self.questions[question] += 1
        asked = dict(word.split("=") for word in question.split())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        with suppress(ConnectionError):  # whoever asked may have been killed
            await response.prepare(request)
            for number in range(len(words_of(prefix)), int(asked["words"])):
                await self._may_say(int(epoch), number)
                await response.write(chunk(word_of(int(epoch), int(attempt), number)))
                await asyncio.sleep(float(asked["gap_ms"]) / 1000)
            await response.write(END)
        return response


def _prefix(body: dict[str, Any]) -> str:
    """What stands already of the answer that is asked for, as vLLM is told it."""
    last = body["messages"][-1]
    if last["role"] != "assistant":
        return ""
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    prefix: str = last["content"]
    return prefix


@asynccontextmanager
async def counting_model() -> AsyncIterator[CountingModel]:
    """Serve one on a free port."""
    model = CountingModel()
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
