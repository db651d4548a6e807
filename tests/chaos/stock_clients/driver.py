"""The processes in which stock clients ask."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

from tests.chaos.stock_clients.protocols import Protocol
from tests.integration.server_process import clean_environment
from tests.integration.stock_clients.clients import QUIET

_LINE_BYTES = 1_048_576
_END_SECONDS = 5.0


class DriverEnded(Exception):
    """A driver's process has ended."""


@dataclass(frozen=True)
class Told:
    """What a client tells of a question: see `asking.py`, which writes it."""

    name: str
    said: dict[str, Any]
    whole: dict[str, Any] | None
    broken: list[dict[str, Any]]
    ended: bool
    connections: int
    errors: Mapping[str, int]
    lasting: str | None


class Driver:
    """One process, which answers many questions at once."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: dict[str, asyncio.Future[Told]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, protocol: Protocol, url: str, log: Path) -> Self:
        """Start a driver that asks at `url`, and return when it is ready.

        Args:
            log: the file for what it complains of.

        Raises:
            DriverEnded: it ended before it was ready.
        """
        with log.open("ab") as complaints:
            process = await asyncio.create_subprocess_exec(
                *protocol.command,
                url,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=complaints,
                env=clean_environment(QUIET),
                limit=_LINE_BYTES,
            )
        assert process.stdout is not None
        if not await process.stdout.readline():
            raise DriverEnded(f"the driver of {protocol.name} did not start: {log}")
        return cls(process)

    async def ask(self, question: Mapping[str, Any]) -> Told:
        """Ask, and return what came of it when that is over.

        Raises:
            DriverEnded: the process is gone.
        """
        told: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._waiting[question["name"]] = told
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps(question) + b"\n")
        if self._reading.done():
            raise DriverEnded
        return await told

    async def stop(self) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _END_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            fields = orjson.loads(line)
            told = Told(**{name: fields[name] for name in Told.__dataclass_fields__})
            if not (waiting := self._waiting.pop(told.name)).done():
                waiting.set_result(told)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(DriverEnded())
