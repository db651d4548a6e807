"""A failed answer is freed as soon as nobody needs it: a busy node doesn't look for reference
cycles.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections.abc import Iterator

import pytest

from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.fargate_handler.orchestrator.upstream import Upstream
from evenflow.fargate_handler.runtime.background import Background
from evenflow.fargate_handler.token_sources.openai import OpenAIModel
from evenflow.fargate_handler.token_sources.port import (
    ModelFinish,
    ModelRequest,
    TokenSink,
    TokenSource,
)
from evenflow.stream_core.base.channel import CHAT
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.session.conversation import Turn
from evenflow.stream_core.upstream.circuit_breaker import CircuitBreaker
from evenflow.stream_core.upstream.concurrency_limiter import ConcurrencyLimiter
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle
from tests.unit.stream_core.delivery.test_response_stream import new_stream

pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Text(str):
    """One that can be watched."""

    __slots__ = ("__weakref__",)


class FailingSource:
    """Every answer fails, with a cause, after a token."""

    continues = False

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """See `TokenSource.generate`."""
        sink.push("half")
        try:
            raise OSError("the connection broke")
        except OSError as error:
            if self._error is UpstreamFailed:
                raise UpstreamFailed("it broke", code="upstream_failed") from error
            raise self._error("unknown") from error

    async def close(self) -> None:
        """Nothing to release."""


async def _fail(source: TokenSource) -> list[weakref.ref[object]]:
    """What is left of an answer that has failed, when nobody has it any more."""
    clock, ended, text = HandTurnedClock(), asyncio.Event(), Text("a long conversation")
    stream = new_stream(clock, start=False)
    generation = Generation(
        stream=stream,
        kind=CHAT,
        line=Line("public"),
        request=WholeRequest((Turn("user", text),)),
        upstream=Upstream("model", source, CircuitBreaker(10, 10.0), ConcurrencyLimiter(0.02)),
        clock=clock.delivery,
        limits=Limits(),
        grace_seconds=30.0,
        fallback_text="",
        continues=lambda _: False,
        monotonic=clock.monotonic,
        in_force=lambda: True,
        requeue=lambda _: None,
        wait_for_tools=lambda _: None,
        on_retry=lambda: None,
        on_failure=lambda _: None,
        on_end=lambda _: ended.set(),
    )
    generation.start(Background())
    await asyncio.wait_for(ended.wait(), 10)
    await settle()
    assert stream.error is not None
    clock.turn(5.0)  # the clock forgets what it was to look at
    return [weakref.ref(generation), weakref.ref(generation._task), weakref.ref(text)]


@pytest.mark.parametrize("error", [UpstreamFailed, RuntimeError])
async def test_a_failed_answer_is_freed_without_a_collection(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "evenflow.fargate_handler.orchestrator.answer_calls._logger.disabled", True
    )  # pytest keeps what is logged
    left = await _fail(FailingSource(error))
    assert [reference() for reference in left] == [None, None, None]


async def test_an_answer_that_no_server_took_is_freed_without_a_collection() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        source = OpenAIModel(f"http://127.0.0.1:{unused.getsockname()[1]}/v1", "m", None)
        try:
            left = await _fail(source)
            assert [reference() for reference in left] == [None, None, None]
        finally:
            await source.close()
