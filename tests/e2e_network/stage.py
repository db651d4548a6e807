"""What the scenarios share: browsers, the reader's pages, a model that counts its calls, and what
is read back of an answer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
import shutil
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from tests.conformance.interface_clients import JAVASCRIPT, bundle
from tests.e2e.rough_network import RoughNetwork, WebSockets
from tests.e2e_network.browser import ReaderPage, RunningBrowser, State, open_page, running_browser
from tests.e2e_network.cells import Browser, Page, Transport
from tests.e2e_network.judge import Log, faults
from tests.integration.counting_model import CountingModel, counting_model, word_of, words
from tests.integration.server_process import ROOT, Server

_SITE = Path(__file__).parent / "site"
NOT_BEGUN = "did not begin"
_BEGIN_SECONDS = 60.0
_BEGUN_CHARACTERS = 60
_READ_BACK_SECONDS = 20.0


@dataclass(frozen=True)
class Outcome:
    """How one scenario went.

    Args:
        group: of those that are compared.
        seconds: what was measured; None where it didn't come to that.
        notes: what else is worth a line.
        most_seconds: more than that is too late. A busy machine is late by itself, so it is a
            fault only when the scenario is too late again with the machine to itself.
    """

    group: str
    name: str
    seconds: float | None
    faults: list[str]
    notes: str = ""
    most_seconds: float = math.inf

    @property
    def is_late(self) -> bool:
        """Whether it is only the time that is wrong."""
        return not self.faults and self.seconds is not None and self.seconds > self.most_seconds

    @property
    def may_be_load(self) -> bool:
        """Whether a busy machine may be all that is wrong: it is late, or was never played."""
        has_not_begun = self.faults and all(NOT_BEGUN in fault for fault in self.faults)
        return self.is_late or bool(has_not_begun)


@dataclass(frozen=True)
class Question:
    """One question, which only one reader asks."""

    reader: str
    count: int
    gap_ms: float

    @property
    def text(self) -> str:
        """As the model is asked."""
        return f"{words(self.count, self.gap_ms)} reader={self.reader}"

    @property
    def answer(self) -> str:
        """All that the model says when it is called once."""
        return " ".join(word_of(1, 1, number).strip() for number in range(self.count))


@dataclass(frozen=True)
class Stage:
    """What runs for all scenarios.

    Args:
        site: the folder that servers have as their page.
        scratch: for what is of no use afterwards.
        folder: for logs.
    """

    browsers: Mapping[Browser, RunningBrowser]
    model: CountingModel
    http: aiohttp.ClientSession
    site: Path
    scratch: Path
    folder: Path
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Of servers in this process: each looks at the environment when it starts."""
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def name(self, kind: str) -> str:
        """One that nobody else has."""
        return f"{kind}-{next(self.numbers)}"

    def settings(self, name: str) -> dict[str, Any]:
        """Of a server; `name` is nobody else's. The others are the product's defaults."""
        return {
            "model": "openai",
            "model_url": self.model.url,
            "page": str(self.site),
            "store": "sqlite",
            "store_path": str(self.scratch / name / "evenflow.db"),
        }

    def variables(self, name: str) -> dict[str, str]:
        """The same for a process."""
        settings = self.settings(name)
        return {f"EVENFLOW_{key.upper()}": str(value) for key, value in settings.items()}

    @asynccontextmanager
    async def page(
        self, browser: Browser, page: Page, network: RoughNetwork, name: str, without: str = ""
    ) -> AsyncIterator[ReaderPage]:
        """Open one by way of a network; `without` as in `open_page`."""
        async with open_page(self.browsers[browser], page, network.url, name, without) as opened:
            yield opened

    async def judged(
        self, page: Page, question: Question, server: Server, state: State
    ) -> list[str]:
        """What is wrong with what a reader has seen at its end."""
        return self.faults_of(question, await self.read_back(page, question, server, state), state)

    def faults_of(self, question: Question, log: Log, state: State) -> list[str]:
        """The same, compared with a log that was read back before."""
        calls = self.model.questions[question.text]
        return faults(state, log, model_text=question.answer, model_calls=calls)

    async def read_back(self, page: Page, question: Question, server: Server, state: State) -> Log:
        """The answer as the server has it, from its beginning to its end."""
        if state.response_id is None:
            return Log("not known", "")
        path, headers = f"/chat/message/{state.response_id}", dict[str, str]()
        if page is Page.USE_CHAT:
            path = f"/api/chat/{question.reader}/stream?response_id={state.response_id}"
        elif state.token is not None:
            headers["Authorization"] = f"Bearer {state.token}"
        index = 0
        try:
            async with asyncio.timeout(_READ_BACK_SECONDS):
                while True:
                    asked = path if page is Page.USE_CHAT else f"{path}?from_index={index}"
                    url = server.http_url + asked
                    async with self.http.get(url, headers=headers) as answer:
                        body = await answer.text()
                    if answer.status != 200:
                        return Log(f"refused with {answer.status}: {body[:80]}", "")
                    if page is Page.USE_CHAT:
                        return _log_of_chunks(body)
                    read = json.loads(body)
                    if "full_text" in read:
                        return Log(read["status"], " ".join(read["full_text"].split()))
                    index = read["chunk_index"] + 1
        except TimeoutError:
            return Log("still streaming", "")


def _log_of_chunks(body: str) -> Log:
    """AI SDK's stream of an answer."""
    chunks = [json.loads(data) for data in re.findall(r"^data: (\{.*\})$", body, re.MULTILINE)]
    text = "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")
    last = chunks[-1]["type"] if chunks else "empty"
    return Log("completed" if last == "finish" else last, " ".join(text.split()))


def shape(network: RoughNetwork, transport: Transport, page: Page) -> None:
    """Make it a network on which answers travel like that. AI SDK's chat knows one way."""
    if transport is Transport.WEBSOCKET or page is Page.USE_CHAT:
        return
    network.websockets = WebSockets.REFUSED
    if transport is Transport.POLL:
        network.held_back = 0


async def begin(page: ReaderPage, question: Question, transport: Transport) -> str | None:
    """Ask, and wait for a piece of the answer; returns what is wrong if none comes like that."""
    await page.ask(question.text)
    begun = f"reader.text().length >= {_BEGUN_CHARACTERS}"
    by = f"reader.transport() === {json.dumps(transport.value)}"
    if await page.until(f"{begun} && {by}", _BEGIN_SECONDS):
        return None
    state = await page.state()
    text = " ".join(state.texts)
    return f"{NOT_BEGUN} by {transport.value}: {state.transport}, {len(text)} characters"


@asynccontextmanager
async def running_stage(folder: Path, browsers: Collection[Browser]) -> AsyncIterator[Stage]:
    """Start what all scenarios share; it is ended when left."""
    async with AsyncExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        site = scratch / "site"
        await asyncio.to_thread(_build, site)
        model = await stack.enter_async_context(counting_model())
        http = await stack.enter_async_context(aiohttp.ClientSession())
        started = {
            browser: await stack.enter_async_context(running_browser(browser, scratch, folder))
            for browser in browsers
        }
        yield Stage(started, model, http, site, scratch, folder)


def _build(site: Path) -> None:
    """The built element and library as every server has them, and the reader's pages."""
    shutil.copytree(ROOT / "web" / "dist", site)
    shutil.copy(_SITE / "index.html", site)
    for script in _SITE.glob("*.js"):
        shutil.copy(script, site / "assets")
    bundle(
        JAVASCRIPT / "chat_page.mjs",
        site / "assets" / "chat.js",
        '--define:process.env.NODE_ENV="production"',
    )
