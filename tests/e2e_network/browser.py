"""A real browser that `browser.mjs` drives, and its pages."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.e2e_network.cells import Browser, Page

_SCRIPT = Path(__file__).parent / "browser.mjs"
_PROGRAMS = {
    Browser.CHROMIUM: ("chromium", "chromium-browser", "google-chrome"),
    Browser.FIREFOX: ("firefox-esr", "firefox"),
}
_LONGEST_LINE = 2**26
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_STOP_SECONDS = 20.0


class BrowserError(Exception):
    """A browser doesn't do what it was told to do."""


def program_of(browser: Browser) -> str:
    """Its path.

    Raises:
        BrowserError: there is none.
    """
    variable = browser.name
    installed = filter(None, map(shutil.which, _PROGRAMS[browser]))
    found = os.environ.get(variable) or next(installed, "")
    if not found:
        install = f"`apt-get install {_PROGRAMS[browser][0]}`"
        raise BrowserError(f"no {variable.title()}: {install}, or {variable}=/path")
    return found


class RunningBrowser:
    """A browser's process, with pages in windows of their own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self.version = ""

    async def run(self) -> None:
        """Take its replies, until it ends."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            reply = json.loads(line)
            if reply["id"] == 0:
                self.version = reply["value"]
            waiting = self._replies.pop(reply["id"], None)
            if waiting is None or waiting.done():
                continue
            if "error" in reply:
                waiting.set_exception(BrowserError(reply["error"]))
            else:
                waiting.set_result(reply["value"])
        for waiting in self._replies.values():
            if not waiting.done():
                waiting.set_exception(BrowserError("the browser has ended"))

    async def tell(self, command: str, page: str, **given: object) -> Any:
        """Have it do something; returns what that gives."""
        number = next(self._numbers)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        line = json.dumps({"id": number, "do": command, "page": page, **given})
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        return await reply


@dataclass(frozen=True)
class State:
    """What is on a reader's screen, and what has been there.

    Args:
        texts: of the answers, as words with one space between them.
        problem: why there is no more; None where there is none.
        notices: what else is said.
        changes: seconds since 1970, and characters of the last answer from then on.
        taken_back: texts that were on the screen and did not stay, each with the next one.
    """

    texts: list[str]
    is_over: bool
    problem: str | None
    notices: list[str]
    response_id: str | None
    token: str | None
    transport: str | None
    changes: list[tuple[float, int]]
    taken_back: list[tuple[str, str]]


class ReaderPage:
    """A page of `site/`, in a browser."""

    def __init__(self, browser: RunningBrowser, name: str) -> None:
        self._browser = browser
        self._name = name

    async def evaluate(self, code: str) -> Any:
        """What JavaScript gives there."""
        return await self._browser.tell("evaluate", self._name, code=code)

    async def ask(self, question: str) -> None:
        """Ask, as a person does."""
        await self.evaluate(f"void reader.ask({json.dumps(question)})")

    async def until(self, condition: str, seconds: float) -> bool:
        """Wait until something is so there, in real time; whether it came to that."""
        is_so: bool = await self.evaluate(f"reader.until(() => {condition}, {seconds * 1000})")
        return is_so

    async def set_online(self, *, online: bool) -> None:
        """The browser finds out that it has a network, or none."""
        await self.evaluate(f"reader.setOnline({json.dumps(online)})")

    async def state(self) -> State:
        """What is there."""
        told: Mapping[str, Any] = await self.evaluate("reader.state()")
        return State(
            texts=told["texts"],
            is_over=told["isOver"],
            problem=told["problem"],
            notices=told["notices"],
            response_id=told["responseId"],
            token=told["token"],
            transport=told["transport"],
            changes=[(at / 1000, length) for at, length in told["changes"]],
            taken_back=[(before, text) for before, text in told["takenBack"]],
        )

    async def freeze(self) -> None:
        """The browser stops its scripts."""
        await self._browser.tell("freeze", self._name)

    async def thaw(self) -> None:
        """It goes on, and is looked at."""
        await self._browser.tell("thaw", self._name)


@asynccontextmanager
async def open_page(
    browser: RunningBrowser, page: Page, url: str, name: str, without: str = ""
) -> AsyncIterator[ReaderPage]:
    """Open a page by way of an address; it is closed when left.

    Args:
        name: nobody else's.
        without: a transport that an application with the client library does not allow.
    """
    of_chat = {"id": name, "api": "/api/chat", "transport": "evenflow", "without": without}
    await browser.tell("open", name, url=f"{url}/#{urlencode({'page': page.value, **of_chat})}")
    try:
        opened = ReaderPage(browser, name)
        async with asyncio.timeout(_START_SECONDS):
            while not await opened.evaluate("window.reader !== undefined"):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_SECONDS)
        yield opened
    finally:
        with suppress(BrowserError):
            await browser.tell("close", name)


@asynccontextmanager
async def running_browser(
    browser: Browser, scratch: Path, folder: Path
) -> AsyncIterator[RunningBrowser]:
    """Start one; it is ended when left.

    Args:
        scratch: for its profile.
        folder: for what it prints.
    """
    profile = scratch / browser.value
    profile.mkdir(parents=True)
    with (folder / f"{browser.value}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *("node", str(_SCRIPT), browser.value, program_of(browser), str(profile)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=_LONGEST_LINE,
            # Firefox asks for a home that is its user's own.
            env={**os.environ, "HOME": str(profile)},
        )
    running = RunningBrowser(process)
    taking = asyncio.create_task(running.run())
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not running.version and not taking.done():  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_SECONDS)
        if not running.version:
            raise BrowserError(f"{browser.name.title()} did not start: see {log.name}")
        yield running
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()
        await taking
