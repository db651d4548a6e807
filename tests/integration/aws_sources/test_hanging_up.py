"""Cancellation and pauses, from the model server's view."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from evenflow.fargate_handler.token_sources.port import TokenSource
from tests.integration.aws_models.certificate import tls_of_localhost
from tests.integration.aws_models.model_server import ModelServer, model_server
from tests.integration.aws_models.reply import Reply, sends
from tests.integration.aws_models.services import Service
from tests.integration.aws_sources.conftest import (
    FINISH,
    Opened,
    asks,
    nothing_is_left,
    point_at,
)
from tests.integration.chat_client import demo
from tests.unit.fargate_handler.token_sources.recording_sink import Full, RecordingSink

_CANCEL_MS = 200.0
_TRIES = 3


async def test_a_sink_that_wants_no_more_hangs_up(
    service: Service, model: ModelServer, opened: Opened
) -> None:
    source = opened(service)
    model.will(sends(*service.begin(["word "] * 1000), gap=0.005, headers=service.headers))
    with pytest.raises(Full):
        await source.generate(asks("a question"), RecordingSink(refuses_after=5))
    await nothing_is_left(source, model)


async def cancelled(
    source: TokenSource, model: ModelServer, sink: RecordingSink, question: str = "x"
) -> float:
    """Cancel a call after its first token (or when it is paused, or silent); the milliseconds
    until the server saw it.
    """
    call = asyncio.ensure_future(source.generate(asks(question), sink))
    await model.until_open(1)
    await asyncio.sleep(0.05)
    assert not call.done()
    model.hung_up_at.clear()
    began = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await model.until_open(0)
    return (model.hung_up_at[0] - began) * 1000


async def best(once: Callable[[], Awaitable[float]]) -> float:
    """The machine is shared: a try may wait for its turn, which says nothing of what was built."""
    return min([await once() for _ in range(_TRIES)])


@pytest.mark.parametrize(
    "how", ["while it speaks", "before the head", "in silence", "while it is paused"]
)
async def test_cancellation_is_seen_by_the_server(
    service: Service, model: ModelServer, opened: Opened, how: str
) -> None:
    source = opened(service)
    begin = service.begin(["word "] * 3)
    model.will(
        {
            "while it speaks": sends(*begin * 1000, gap=0.02, headers=service.headers),
            "before the head": Reply(then="silence before the head"),
            "in silence": sends(*begin, then="silence", headers=service.headers),
            "while it is paused": sends(
                *[b"".join(service.begin(["x" * 1000] * 10))] * 3000, headers=service.headers
            ),
        }[how]
    )

    async def once() -> float:
        sink = RecordingSink()
        sink.paused = how == "while it is paused"
        return await cancelled(source, model, sink)

    assert await best(once) < _CANCEL_MS
    await nothing_is_left(source, model)


async def test_cancellation_is_seen_through_tls(
    either: Service, opened: Opened, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context, trusted = tls_of_localhost(tmp_path)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(trusted))
    async with model_server(context) as model:
        point_at(model, monkeypatch)
        source = opened(either)
        question = demo(tokens=1000, gap_ms=20)
        assert await best(lambda: cancelled(source, model, RecordingSink(), question)) < _CANCEL_MS
        await nothing_is_left(source, model)


class HeldFromItsFirstToken(RecordingSink):
    """So that it can be told from one that nothing has come to yet."""

    def push(self, token: str) -> None:
        """See `RecordingSink`."""
        super().push(token)
        if len(self.tokens) == 1:
            self.paused = True


async def taken_when_still(sink: RecordingSink) -> int:
    """How many tokens a sink has when it has some, and no more have come for 0.3 s and 30 turns
    of the loop.
    """
    async with asyncio.timeout(10):
        while True:
            taken = len(sink.tokens)
            for _ in range(30):
                await asyncio.sleep(0.01)
            if 0 < taken == len(sink.tokens):
                return taken


async def test_a_held_sink_holds_the_server_back_and_loses_nothing(
    service: Service, model: ModelServer, opened: Opened
) -> None:
    texts = [f"{number} " + "x" * 10_000 for number in range(2000)]
    model.will(sends(*service.answer(texts), headers=service.headers))
    sink = HeldFromItsFirstToken()
    call = asyncio.ensure_future(opened(service).generate(asks("a question"), sink))
    assert await taken_when_still(sink) < 100
    assert model.open == 1, "20 MB are in no socket's buffer: the server waits"
    sink.paused = False
    assert await call == FINISH
    assert sink.tokens == texts
