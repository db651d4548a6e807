"""`python -m tests.chaos.kill_and_restart`: `kill -9` in the middle of a handler's answers, and a
start. Before that the process that writes for it is killed, which no reader may notice.

The handler has the settings of `make run`: its stores are a file. Exits with 1 on any gap,
duplicate, wrong byte, or answer without its whole end.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import monotonic

import aiohttp
import numpy as np
import psutil
import uvloop

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.chaos.answer import Answer
from tests.chaos.answer_check import Kind
from tests.chaos.behaviour import Behaviour, any_transport
from tests.chaos.reader import Reader
from tests.chaos.script import Script
from tests.chaos.session import ChaosSession
from tests.chaos.waiting import until
from tests.chaos.window import Window
from tests.integration.server_process import ServerProcess

_RAMP_SECONDS = 10.0
_WITHOUT_NOTICE_SECONDS = 3.0
_GAP_MS = 500
_TOKENS = (60, 80)
_ACCEPTED_SECONDS = 60.0
_PATIENCE_SECONDS = 60.0


class DemoScript(Script):
    """What the demo model of `make run` answers to a directive."""

    @property
    def question(self) -> str:
        """What to send for it."""
        return f"#demo tokens={self.tokens} gap_ms={self.gap_ms} seed={self.key}"

    def words(self) -> list[str]:
        """The tokens."""
        return demo_tokens(int(self.key), self.tokens)


class WaitingReader(Reader):
    """A reader that measures how long it waited for what the killed handler didn't say any more."""

    killed_at: float | None = None
    waited: float | None = None

    def progressed(self) -> None:
        """New text came, or the end."""
        if self.killed_at is not None and self.waited is None and self.check.epoch > 1:
            self.waited = monotonic() - self.killed_at


class Run:
    """So many answers, each with one reader, through the end of the handler.

    Args:
        folder: for the store and the handlers' logs.
        seed: of everything that is drawn.
    """

    def __init__(self, http: aiohttp.ClientSession, folder: Path, answers: int, seed: int) -> None:
        self.readers: list[WaitingReader] = []
        self.struck: list[WaitingReader] = []
        """Those whose answers were in flight."""
        self.down_seconds = 0.0
        self._http = http
        self._folder = folder
        self._answers = answers
        self._random = Random(seed)
        self._window = Window("kill and restart")
        self._server = self._start(None)

    async def play(self) -> None:
        """Ask, kill, start again, and read to the end."""
        reading = [asyncio.create_task(self._ask(number)) for number in range(self._answers)]
        asked = await until(
            lambda: (
                sum(reader.answer.response_id is not None for reader in self.readers)
                == self._answers
            ),
            _RAMP_SECONDS + _ACCEPTED_SECONDS,
        )
        print("all are asked" if asked else "not all could be asked in time", flush=True)
        self._kill_writer()
        await asyncio.sleep(_WITHOUT_NOTICE_SECONDS)
        killed_at = monotonic()
        self._server.kill()
        self.struck = [reader for reader in self.readers if not reader.check.ended]
        for reader in self.struck:
            reader.killed_at = killed_at
        print(f"killed with {len(self.struck):,} answers in flight", flush=True)
        self._server = await asyncio.to_thread(self._start, self._server.port)
        self.down_seconds = monotonic() - killed_at
        await asyncio.gather(*reading)

    def stop(self) -> None:
        """End the handler."""
        self._server.stop()

    def _kill_writer(self) -> None:
        (writer,) = [
            it
            for it in psutil.Process(self._server.process.pid).children(recursive=True)
            if "evenflow.stream_sqlite.writer" in it.cmdline()
        ]
        writer.kill()
        print("killed the process that writes", flush=True)

    def _start(self, port: int | None) -> ServerProcess:
        store = {
            "EVENFLOW_STORE": "sqlite",
            "EVENFLOW_STORE_PATH": str(self._folder / ".evenflow" / "evenflow.db"),
        }
        log = self._folder / f"{'first' if port is None else 'second'}.log"
        return ServerProcess(log, store, port).wait_until_serving()

    async def _ask(self, number: int) -> None:
        await asyncio.sleep(_RAMP_SECONDS * number / self._answers)
        session = await self._open_session()
        random = Random(self._random.random())
        script = DemoScript(str(number), random.randint(*_TOKENS), _GAP_MS)
        answer = Answer(session, "m0", None, script, self._window)
        reader = WaitingReader(answer, Behaviour(any_transport(random)), random, asks=True)
        self.readers.append(reader)
        await reader.read_to_end(
            asyncio.get_running_loop().time()
            + _RAMP_SECONDS
            + _ACCEPTED_SECONDS
            + script.seconds
            + _PATIENCE_SECONDS
        )
        reader.progressed()

    async def _open_session(self) -> ChaosSession:
        async with self._http.post(f"{self._server.http_url}/session", json={}) as said:
            opened = await said.json()
        session = ChaosSession(
            self._http, opened["http_url"], opened["session_id"], opened["token"]
        )
        session.ws_url = f"{opened['ws_url']}"
        return session


def report(run: Run) -> tuple[str, bool]:
    """What came of it, and whether nothing was lost."""
    problems = Counter(problem.kind for reader in run.readers for problem in reader.check.problems)
    errors = Counter(reader.check.error_code for reader in run.readers if reader.check.error_code)
    transports = Counter(str(reader.transport) for reader in run.struck)
    went_on = [reader for reader in run.struck if reader.waited is not None]
    waited = [reader.waited for reader in went_on if reader.waited is not None]
    p50, p95, longest = np.percentile(waited, (50, 95, 100)) if waited else (0.0, 0.0, 0.0)
    whole = sum(reader.check.ended and not reader.check.problems for reader in run.readers)
    ok = not problems and not errors and whole == len(run.readers) and bool(waited)
    lines = [
        f"answers                   {len(run.readers):,}",
        (
            f"  in flight when killed   {len(run.struck):,}  "
            f"({', '.join(f'{n} {name}' for name, n in transports.items())})"
        ),
        f"  whole at the end        {whole:,}",
        *(f"{f'{kind}:':<26}{problems[kind]}" for kind in Kind),
        f"errors                    {dict(errors) or 0}",
        f"went on where they were   {sum(not reader.check.taken_back for reader in went_on):,}",
        f"restarted visibly         {sum(reader.check.taken_back > 0 for reader in went_on):,}",
        f"the handler was away      {run.down_seconds:.1f} s",
        f"readers waited            p50 {p50:.1f} s, p95 {p95:.1f} s, max {longest:.1f} s",
    ]
    return "\n".join(lines), ok


def _first_problems(run: Run) -> Iterator[str]:
    wrong = [reader for reader in run.readers if reader.check.problems]
    for reader in wrong[:5]:
        yield f"{reader.transport} {reader.answer.response_id}: {reader.check.problems[0].detail}"
        yield from (f"    {frame}" for frame in list(reader.check.frames)[-12:])


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


async def _run(answers: int, seed: int, kept: Path | None) -> int:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar()
    ) as http:
        with _folder(kept) as folder:
            run = Run(http, folder, answers, seed)
            try:
                await run.play()
            finally:
                run.stop()
    text, ok = report(run)
    print(f"\n{text}\n", *_first_problems(run), sep="\n")
    print("nothing lost, nothing twice, nothing wrong" if ok else "FAILED")
    return 0 if ok else 1


def main(arguments: Sequence[str]) -> int:
    """Run; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.kill_and_restart", description=__doc__
    )
    parser.add_argument(
        "--answers", type=int, default=1_000, help="in flight when it is killed (default 1000)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of everything that is drawn (default 1)"
    )
    parser.add_argument(
        "--keep", type=Path, help="a folder for the store and the logs, which is kept"
    )
    options = parser.parse_args(arguments)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return uvloop.run(_run(options.answers, options.seed, options.keep))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
