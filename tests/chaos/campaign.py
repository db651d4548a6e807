"""A run: the load comes up, fault after fault strikes it, and at the end everything is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import cycle, zip_longest
from pathlib import Path
from time import monotonic

import aiohttp
import psutil

from tests.chaos.answer import Answer
from tests.chaos.answer_lines import check_lines, read_lines
from tests.chaos.faults import FAULTS, Fault, Scene
from tests.chaos.idle_clients import IdleClients
from tests.chaos.idle_drain import drain_of_idle_connections
from tests.chaos.load import Load
from tests.chaos.node import Node
from tests.chaos.plan import Plan
from tests.chaos.report import story
from tests.chaos.session import Sessions
from tests.chaos.stock_clients.asking import STOCK_CLIENT_FAULTS
from tests.chaos.system import KEY_ID, NotHealthy, System
from tests.chaos.usage_rows import check_sums, check_usage
from tests.chaos.waiting import until
from tests.chaos.window import Window

ALL_FAULTS: dict[str, Fault] = {
    **FAULTS,
    "drain-idle": drain_of_idle_connections,
    **STOCK_CLIENT_FAULTS,
}
WHOLE = tuple(name for name in ALL_FAULTS if name != "stock-clients")
"""The faults of a run that isn't short: each protocol has one of its own there."""
_IDLE_PER_SECOND = 300.0
_PROGRESS_SECONDS = 5.0
_MEASURE_SECONDS = 0.5
_FULL_SECONDS = 90.0
_STRIKE_SECONDS = 180.0
_LINES_SECONDS = 5.0
# So long after the last answer nothing is reserved for any.
_RELEASED_SECONDS = 15.0
_STORIES_PRINTED = 12

Say = Callable[[str], None]


class Campaign:
    """One run against a running system.

    Args:
        folder: for the stories of answers with problems.
    """

    def __init__(
        self, plan: Plan, system: System, http: aiohttp.ClientSession, folder: Path, say: Say
    ) -> None:
        self.windows: list[Window] = []
        sessions = Sessions(http, system.url, KEY_ID, system.secret)
        self._plan = plan
        self._system = system
        self._say = say
        self._folder = folder
        self._stories = 0
        self._load = Load(plan, sessions, Window("start"), self._tell_answer)
        self._idle = IdleClients(sessions, plan.run, plan.seed)
        self._phase = "start"

    async def run(self, faults: Sequence[str]) -> None:
        """All of these, one after the other."""
        try:
            async with self._in_background():
                if not STOCK_CLIENT_FAULTS.keys() >= set(faults):
                    self._load.wanted = self._plan.answers + self._plan.spare
                    await self._idle.add(self._plan.idle, _IDLE_PER_SECOND)
                # Each node's turn comes again and again.
                for name, victim in zip(faults, cycle(self._system.nodes.values()), strict=False):
                    await self._strike(name, victim)
                self._phase = "end"
                await self._rest()
        finally:
            await self._load.stop()
            await self._idle.stop()
        await self._count_calls()

    async def _strike(self, name: str, victim: Node) -> None:
        self._phase = f"before {name}"
        if name in STOCK_CLIENT_FAULTS:
            await self._rest()
        else:
            await self._fill()
        window = Window(name)
        self.windows.append(window)
        struck = self._load.strike(window)
        self._phase = name
        self._say(
            f"{name} strikes node {victim.name} ({victim.node_id[:4]}), {len(struck):,} answers in "
            "flight"
        )
        if len(struck) < self._load.wanted - self._plan.spare:
            window.misses.append(
                f"only {len(struck)} answers were in flight, not {self._plan.answers}"
            )
        for node in self._system.nodes.values():
            node.peak_bytes = 0
        scene = self._scene(window, victim)
        try:
            async with asyncio.timeout(_STRIKE_SECONDS):
                await ALL_FAULTS[name](scene)
            self._phase = f"after {name}"
            await self._system.until_healthy()
        except (TimeoutError, OSError, NotHealthy) as error:
            window.misses.append(f"{type(error).__name__} {error}".strip())
        await self._load.until_ended(struck, self._plan.patience_seconds)
        window.peak_bytes = max(node.peak_bytes for node in self._system.nodes.values())
        self._check_nodes(window)

    async def _fill(self) -> None:
        """Have as many answers in flight as planned."""
        self._load.wanted = self._plan.answers + self._plan.spare
        await until(lambda: len(self._load.in_flight) >= self._plan.answers, _FULL_SECONDS)

    async def _rest(self) -> None:
        """Have no answers in flight."""
        await self._load.until_idle(self._plan.patience_seconds)

    def _scene(self, window: Window, victim: Node) -> Scene:
        return Scene(
            self._plan,
            self._system,
            self._load,
            self._idle,
            window,
            victim,
            self._folder,
            self._tell,
        )

    def _check_nodes(self, window: Window) -> None:
        for node in self._system.nodes.values():
            if (status := node.process.poll()) is not None:
                window.misses.append(
                    f"node {node.name} ended with the exit status {status}: {node.log}"
                )
            if "Traceback" in node.log.read_text(errors="replace"):
                window.misses.append(f"node {node.name} logged a traceback: {node.log}")

    async def _count_calls(self) -> None:
        told = await self._system.model.calls()
        for window in self.windows:
            window.count_calls(told["calls"])
        await self._check_lines(told["tokens"])
        await self._check_usage(told["tokens"])
        for name in ("unkeyed", "wrong_prefixes"):
            if told[name]:
                self.windows[-1].misses.append(
                    f"the model got {told[name]} calls that were {name.replace('_', ' ')}"
                )

    async def _check_lines(self, tokens: Mapping[str, int]) -> None:
        asked = set[str]().union(*(window.response_ids for window in self.windows))
        # The last ends are about to be on record.
        await until(lambda: asked <= read_lines(self._folder).keys(), _LINES_SECONDS)
        lines = read_lines(self._folder)
        # What is in flight when the next fault strikes may end in that moment.
        for window, following in zip_longest(self.windows, self.windows[1:]):
            kills = any("kill" in each.fault for each in (window, following) if each is not None)
            check_lines(window, lines, tokens, kills=kills)

    async def _check_usage(self, tokens: Mapping[str, int]) -> None:
        rows = await self._system.usage.read()
        give_up_at = monotonic() + _RELEASED_SECONDS
        while rows.reserved and monotonic() < give_up_at:
            await asyncio.sleep(_MEASURE_SECONDS)
            rows = await self._system.usage.read()
        for window in self.windows:
            check_usage(window, rows, tokens)
        check_sums(self.windows[-1], rows)

    # -- meanwhile ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _in_background(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(work())
                for work in (self._load.keep_up, self._report_progress, self._measure)
            ]
            yield
            for task in tasks:
                task.cancel()

    async def _measure(self) -> None:
        while True:
            for node in self._system.nodes.values():
                node.measure()
            await asyncio.sleep(_MEASURE_SECONDS)

    async def _report_progress(self) -> None:
        usage = _Usage()
        deltas = self._load.deltas
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            before, deltas = deltas, self._load.deltas
            current = self.windows[-1] if self.windows else None
            problems = current.problems if current else Counter()
            pids = {
                node.name: node.process.pid for node in self._system.nodes.values()
            } | self._system.children
            self._say(
                f"{self._phase}: {len(self._load.in_flight):,} answers in flight, "
                f"{(deltas - before) / _PROGRESS_SECONDS:,.0f} deltas/s, idle {self._connected:,}, "
                f"problems {dict(problems) or 0}; CPU % {usage.since(pids)}"
            )

    @property
    def _connected(self) -> int:
        places = self._idle.by_node()
        return places.total() - places[""]

    def _tell_answer(self, answer: Answer) -> None:
        self._tell(story(answer))

    def _tell(self, text: str) -> None:
        with (self._folder / "problems.txt").open("a") as file:
            file.write(text + "\n\n")
        self._stories += 1
        if self._stories <= _STORIES_PRINTED:
            self._say(text)
        elif self._stories == _STORIES_PRINTED + 1:
            self._say(f"further problems: {self._folder / 'problems.txt'}")


class _Usage:
    """CPU seconds of processes, from one look to the next."""

    def __init__(self) -> None:
        self._at = monotonic()
        self._seconds: dict[int, float] = {}

    def since(self, pids: dict[str, int]) -> str:
        now, parts = monotonic(), []
        for name, pid in {**pids, "load": psutil.Process().pid}.items():
            with suppress(psutil.Error):
                times = psutil.Process(pid).cpu_times()
                seconds = times.user + times.system
                parts.append(
                    f"{name} "
                    f"{100 * (seconds - self._seconds.get(pid, seconds)) / (now - self._at):.0f}"
                )
                self._seconds[pid] = seconds
        self._at = now
        return " ".join(parts)
