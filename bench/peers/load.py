"""The load of one measurement: its readers, what they and the servers cost, and what came."""

import asyncio
import json
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import psutil
from picows import WSError

from bench.client import sleep_until, until
from bench.distributions import percentiles
from bench.event_streams import ProtocolError
from bench.machine import LOAD_CORE, SERVER_CORE, busy_seconds
from bench.peers.judge import Tally, Text, judged
from bench.peers.readers import Question, Reader, called, get
from bench.peers.start import MakeReader, Running
from bench.processes import Child
from bench.upstream import NUMBER_WRAP


class Load:
    """Readers of one running system, and the model behind it."""

    def __init__(self, model_port: int, model: Child, running: Running) -> None:
        self.running = running
        self._model_port = model_port
        self._model = model
        self._client = psutil.Process()
        self._asked = 0
        self.readers: list[Reader] = []
        self.failures: list[str] = []

    def reader(
        self, count: int, gap_ms: int, prompt_tokens: int = 0, make: MakeReader | None = None
    ) -> Reader:
        """One more, with numbers of its own for its tokens."""
        self._asked += 1
        first = self._asked * 7_919 % NUMBER_WRAP  # a prime: neighbours are far apart
        question = Question(f"q{self._asked}", count, gap_ms, first, prompt_tokens)
        reader = (make or self.running.reader)(question)
        self.readers.append(reader)
        return reader

    async def begin(self, readers: Sequence[Reader], moments: Iterable[float]) -> None:
        """Ask at those moments; who cannot ask is counted."""
        asking = []
        for reader, moment in zip(readers, moments, strict=True):
            await sleep_until(moment)
            asking.append(asyncio.create_task(self.survived(reader.begin())))
        await asyncio.gather(*asking)

    async def survived(self, attempt: Awaitable[None]) -> None:
        try:
            await attempt
        except (OSError, TimeoutError, ValueError, WSError, ProtocolError) as error:
            self.failures.append(repr(error)[:300])

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far by process, of the whole cores, and the clock."""
        return {
            "clock": monotonic(),
            **{name: process.usage().server for name, process in self.running.processes.items()},
            "the model": self._model.usage().server,
            "the load": sum(self._client.cpu_times()[:2]),
            "server core": busy_seconds(SERVER_CORE),
            "load core": busy_seconds(LOAD_CORE),
        }

    def memory_bytes(self) -> int:
        return sum(process.memory_bytes() for process in self.running.processes.values())

    async def model(self) -> dict[str, Any]:
        """What the model says of its answers: `running`, and `left`, moments.

        Raises:
            ConnectionError: it has no time to say it.
        """
        leg = await called(get(self._model_port, "/answers"))
        await until(lambda: leg.heard, 5.0, every=0.001)
        leg.transport.abort()
        if not leg.heard:
            raise ConnectionError("the model is too busy to be asked")
        answer: dict[str, Any] = json.loads(leg.pieces[0][1].partition(b"\r\n\r\n")[2])
        return answer

    def texts(self, reader: Reader) -> list[Text]:
        """What came to it; nothing, and one more failure, when that was an error."""
        try:
            return reader.texts()
        except ProtocolError as error:
            self.failures.append(str(error)[:300])
            return []

    def judged(self, readers: Iterable[Reader]) -> Tally:
        """Over all of them, who were to finish."""
        tally = Tally()
        for reader in readers:
            asked = reader.question
            tally += judged(self.texts(reader), asked.first, asked.tokens, must_finish=True)
        return tally


@dataclass
class Step:
    """One number of streams, measured over a stretch in which all were asked for."""

    streams: int
    opened: float
    closed: float
    cpu: dict[str, float]
    memory_bytes: int
    reading: int = 0  # to how many of them a token came
    added: list[float] = field(default_factory=list)
    jitter: list[float] = field(default_factory=list)

    def percent(self, *names: str) -> float:
        return 100 * sum(self.cpu[name] for name in names) / self.cpu["clock"]

    def figures(self, servers: Sequence[str]) -> dict[str, Any]:
        if not self.added:
            return {"streams": self.streams, "reading": 0, "tokens_per_second": 0}
        used = sum(self.cpu[name] for name in servers)
        return {
            "streams": self.streams,
            "reading": self.reading,
            "tokens_per_second": round(len(self.added) / self.cpu["clock"]),
            "tokens_per_core_second": round(len(self.added) / used) if used else None,
            "added_ms": percentiles(self.added).as_figures(),
            "jitter_ms": percentiles(self.jitter or [0.0]).as_figures(),
            "memory_bytes": self.memory_bytes,
            "server_cpu_percent": round(self.percent(*servers), 1),
            "load_cpu_percent": round(self.percent("the model", "the load"), 1),
            "others_on_server_core_percent": round(
                max(0.0, self.percent("server core") - self.percent(*servers)), 1
            ),
            "cpu_percent_by_process": {name: round(self.percent(name), 1) for name in servers},
        }
