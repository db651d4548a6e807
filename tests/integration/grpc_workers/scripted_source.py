"""A token source that does what a test says, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.log.entries import Content

FINISH = ModelFinish("stop", Usage(prompt_tokens=11, completion_tokens=42))

Behaviour = Callable[[ModelRequest, TokenSink], Awaitable[ModelFinish]]


class ScriptedSource:
    """See `TokenSource`."""

    def __init__(self, behaviour: Behaviour, *, continues: bool = False) -> None:
        self.behaviour = behaviour
        self.requests: list[ModelRequest] = []
        self.running = 0
        self.stopped_at: list[float] = []
        self._continues = continues

    @property
    def continues(self) -> bool:
        """As it was made."""
        return self._continues

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """Behave."""
        self.requests.append(request)
        self.running += 1
        try:
            return await self.behaviour(request, sink)
        except asyncio.CancelledError:
            self.stopped_at.append(time.monotonic())
            raise
        finally:
            self.running -= 1

    async def close(self) -> None:
        """Nothing to release."""

    async def until_running(self, wanted: int) -> None:
        """Wait until so many calls are under way."""
        async with asyncio.timeout(20):
            while self.running != wanted:  # noqa: ASYNC110 - the other side is what is tested
                await asyncio.sleep(0.005)


def says(*contents: Content, finish: ModelFinish = FINISH) -> Behaviour:
    """Give these at once, and finish."""

    async def behave(_: ModelRequest, sink: TokenSink) -> ModelFinish:
        for content in contents:
            if isinstance(content, str):
                sink.push(content)
            else:
                sink.push_part(content)
        return finish

    return behave


async def goes_on(_: ModelRequest, sink: TokenSink) -> ModelFinish:
    """Give tokens without end, as fast as the sink takes them."""
    while True:
        if not sink.paused:
            sink.push("word ")
        await asyncio.sleep(0 if not sink.paused else 0.02)


def fails(error: Exception, *tokens: str) -> Behaviour:
    """Give these and raise `error`."""

    async def behave(_: ModelRequest, sink: TokenSink) -> ModelFinish:
        for token in tokens:
            sink.push(token)
        raise error

    return behave


async def is_silent(_: ModelRequest, __: TokenSink) -> ModelFinish:
    """Say nothing, ever."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody ends it")
