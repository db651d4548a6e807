"""Sends inputs to a server, and asks it honestly meanwhile."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from tests.fuzz.honest import HonestReaders, completion
from tests.fuzz.hostile_client import (
    HANDSHAKE_SECONDS,
    check_answer,
    check_frames,
    check_protocol,
    exchange,
    handshake,
)
from tests.fuzz.inputs import Input, input_of
from tests.fuzz.model_server import ModelServer
from tests.fuzz.open_session import OpenSession
from tests.integration.server_process import ServerProcess

TOGETHER = 24
"""So many inputs are sent at once."""

# What waits for the garbage collector may be 128 MiB (`fargate_handler/runtime/memory.py`).
_MOST_GROWTH_BYTES = 192 * 1_048_576
_TOGETHER_SECONDS = 30.0
_LOOK_SECONDS = 1.0
# So long before an honest request comes what nobody asked for.
_UNASKED_SECONDS = 0.05
# So many honest requests then use the connections to the model's server again.
_CONNECTIONS = 8
# Bounds of sizes are reached in seconds then, not in an hour.
SETTINGS = {
    # The store in memory has no bound.
    "EVENFLOW_STORE": "sqlite",
    "EVENFLOW_MODEL": "openai",
    "EVENFLOW_MODELS": "default",
    "EVENFLOW_CONNECTIONS_PER_SESSION": str(TOGETHER),
    "EVENFLOW_SESSIONS_PER_NODE": "2000",
    "EVENFLOW_RESPONSE_TTL_SECONDS": "5",
    "EVENFLOW_GRACE_SECONDS": "1",
}
"""Of the server, besides its ports and its model's address."""


class Found(AssertionError):
    """Something is wrong. The message says what, and has the inputs that were sent just before."""


@dataclass
class Fuzzing:
    """A run.

    Args:
        server: it has two ports, this the second one: `ws_port`.
        first: the number of the first input.
    """

    server: ServerProcess
    ws_port: int
    model: ModelServer
    http: aiohttp.ClientSession
    seed: int
    first: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    """How many inputs of each kind."""
    grown_bytes: int = 0
    """By how much the server's resident memory has grown."""

    def __post_init__(self) -> None:
        self._honest = HonestReaders(self.server, self.http)
        self._resident_bytes = self.server.resident_bytes

    async def run(self, seconds: float, most: int | None = None) -> None:
        """Send inputs for so long, or until so many were sent.

        Raises:
            Found: the server ended, an honest reader was not answered as it should be, the log has
                a traceback, the memory grew too much, or an answer was wrong.
        """
        until = time.monotonic() + seconds
        look_at, number = 0.0, self.first
        while time.monotonic() < until and (most is None or number < self.first + most):
            inputs: Sequence[Input] = ()
            try:
                async with asyncio.timeout(_TOGETHER_SECONDS):
                    session = await self._honest.open_sessions()
                    numbers = range(number, number + TOGETHER)
                    inputs = [input_of(self.seed, each, session) for each in numbers]
                    await self._send_together(inputs, session)
                    self.grown_bytes = self.server.resident_bytes - self._resident_bytes
                    if time.monotonic() >= look_at:
                        look_at = time.monotonic() + _LOOK_SECONDS
                        self._look()
            except Exception as error:
                raise Found(self._report(error, inputs)) from error
            number += TOGETHER
        self._look()

    def _report(self, error: Exception, inputs: Sequence[Input]) -> str:
        again = f"python -m tests.fuzz --seed {self.seed} --first {self.first}"
        if inputs:
            again = f"python -m tests.fuzz --seed {self.seed} --first {inputs[0].number} --most 1"
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        return "\n".join(
            (
                "".join(traceback.format_exception(error)[-3:]),
                f"Again: {again}",
                *map(str, inputs),
                "The end of the log:",
                self.server.log[-3_000:],
            )
        )

    async def _send_together(self, inputs: Sequence[Input], session: OpenSession) -> None:
        async with asyncio.TaskGroup() as group:
            for given in inputs:
                group.create_task(self._send(given, session))
                self.sent[given.kind] += 1
            group.create_task(self._honest.ask(inputs[0].number, session.others))
        # While nobody waits for an answer. One that comes later could be taken for the next one's.
        self.model.send_unasked()
        await asyncio.sleep(_UNASKED_SECONDS)
        await asyncio.gather(*map(self._honest.completes, range(_CONNECTIONS)))

    async def _send(self, given: Input, session: OpenSession) -> None:
        # Both ports, and many addresses, so that no share of one is used up.
        port = self.server.port if given.number % 2 else self.ws_port
        address = f"127.0.0.{2 + given.number % 200}"
        if given.kind == "frames":
            opening = handshake(given, session.token)
            sent = (opening, *given.pieces)
            check_frames(await exchange(port, address, sent, HANDSHAKE_SECONDS))
        elif given.kind == "requests":
            check_answer(await exchange(port, address, given.pieces))
        elif given.kind == "protocols":
            check_protocol(given, await exchange(port, address, given.pieces))
        else:
            self.model.will_answer(given)
            await self._read_hostile_model(given)

    async def _read_hostile_model(self, given: Input) -> None:
        body = completion(f"fuzz {given.number}")
        async with self.http.post(f"{self.server.http_url}/v1/chat/completions", json=body) as got:
            answer = await got.read()
        check_answer(answer)

    def _look(self) -> None:
        assert self.server.process.poll() is None, "the server has ended"
        assert "Traceback" not in self.server.log, "the log has a traceback"
        assert self.grown_bytes < _MOST_GROWTH_BYTES, f"grown by {self.grown_bytes} bytes"
