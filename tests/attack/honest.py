"""Honest readers, in a process of their own: `python -m tests.attack.honest PORT [TENANT]`.

Each asks a small question several times a second, over its own transport, and looks whether the
answer is whole. What became of each question is a line of JSON on stdout. They stop when stdin
ends. The key of tokens comes in the environment. With a tenant they use its key.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import monotonic

import uvloop

from bench.demo_model import Script
from bench.machine import LOAD_CORE, pin
from bench.processes import end_with_parent
from tests.attack.asking import BROKEN, Answer, ask_events, ask_openai, ask_socket
from tests.attack.tokens import TENANT_KEYS, session_token
from tests.attack.wire import Client, bearer
from tests.integration.raw_websocket import RawWebSocket

EVERY_SECONDS = 0.2
PATIENCE_SECONDS = 10.0
_RETURNS_AFTER_SECONDS = 120.0
# An answer takes most of the time until the next question, so that a stop falls into some.
_TOKENS, _GAP_MS = 8, 20


@dataclass(frozen=True)
class Question:
    """What became of one question.

    Args:
        asked_at: `time.monotonic` seconds, which are comparable between processes.
        seconds: to the first text, from before anything was connected for it; the whole patience
            where none came.
        gap: the longest time between two texts of the answer, in seconds.
        error: why there is no whole answer; empty when there is one.
    """

    reader: str
    asked_at: float
    seconds: float
    gap: float
    error: str


class SocketReader:
    """One WebSocket for a whole conversation; a new conversation after an error."""

    def __init__(self, client: Client, tenant: str) -> None:
        self._client = client
        self._tenant = tenant
        self._websocket: RawWebSocket | None = None
        self._previous: str | None = None
        self._asked = 0

    async def ask(self, question: str) -> Answer:
        """Ask the next question."""
        if self._websocket is None:
            self._websocket = await self._client.websocket(session_token(tenant=self._tenant))
            self._previous = None
            if self._websocket.status != 101:
                return self._dropped(Answer(error=str(self._websocket.status)))
        self._asked += 1
        message_id = f"m{self._asked}"
        answer = await ask_socket(self._websocket, message_id, self._previous, question)
        self._previous = message_id
        return self._dropped(answer) if answer.error else answer

    def _dropped(self, answer: Answer) -> Answer:
        self._websocket = None
        self._client.close()
        return answer

    def begin_again(self) -> None:
        """Its connection has ended."""
        self._dropped(Answer())


class ReturningReader:
    """Comes back with an older token for each question, as after a lost network."""

    def __init__(self, client: Client, tenant: str) -> None:
        self._client = client
        self._tenant = tenant

    async def ask(self, question: str) -> Answer:
        """Ask the next question."""
        token = session_token(age_seconds=_RETURNS_AFTER_SECONDS, tenant=self._tenant)
        try:
            websocket = await self._client.websocket(token)
            if websocket.status != 101:
                body = (await websocket.read_body()).decode(errors="replace")
                return Answer(error=str(websocket.status), raw=body)
            return await ask_socket(websocket, "m1", None, question)
        finally:
            self._client.close()

    def begin_again(self) -> None:
        """Nothing is kept."""


class EventsReader:
    """A conversation over HTTP, each question on new connections."""

    def __init__(self, client: Client, tenant: str) -> None:
        self._client = client
        self._tenant = tenant
        self.begin_again()

    def begin_again(self) -> None:
        """A new session."""
        self._token = session_token(tenant=self._tenant)
        self._previous: str | None = None
        self._asked = 0

    async def ask(self, question: str) -> Answer:
        """Ask the next question."""
        self._asked += 1
        message_id = f"m{self._asked}"
        answer = await ask_events(self._client, self._token, message_id, self._previous, question)
        if answer.accepted:
            self._previous = message_id
        else:
            self.begin_again()
        return answer


class OpenAIReader:
    """A request of OpenAI's API, each on a new connection."""

    def __init__(self, client: Client, tenant: str) -> None:
        self._client = client
        self._tenant = tenant

    async def ask(self, question: str) -> Answer:
        """Ask the next question."""
        headers = bearer(TENANT_KEYS[self._tenant]) if self._tenant else {}
        return await ask_openai(self._client, question, headers)

    def begin_again(self) -> None:
        """Nothing is kept."""


Reader = SocketReader | ReturningReader | EventsReader | OpenAIReader
READERS: dict[str, Callable[[Client, str], Reader]] = {
    "socket": SocketReader,
    "returning": ReturningReader,
    "events": EventsReader,
    "openai": OpenAIReader,
}


async def _read_on(name: str, reader: Reader, stopped: asyncio.Event) -> None:
    seed = secrets.randbelow(1_000)
    due = monotonic() + EVERY_SECONDS * secrets.randbelow(100) / 100
    while not stopped.is_set():
        await asyncio.sleep(max(0.0, due - monotonic()))
        seed += 1
        script = Script(_TOKENS, _GAP_MS, seed)
        print(json.dumps(asdict(await _asked(name, reader, script))), flush=True)
        due = max(due + EVERY_SECONDS, monotonic())


async def _asked(name: str, reader: Reader, script: Script) -> Question:
    began = monotonic()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer = await reader.ask(script.question)
    except BROKEN as error:
        reader.begin_again()
        return Question(name, began, PATIENCE_SECONDS, 0.0, type(error).__name__)
    if answer.error:
        return Question(name, began, PATIENCE_SECONDS, answer.gap, answer.error)
    first = answer.first_at or monotonic()
    wrong = "" if answer.text == script.answer else "wrong text"
    return Question(name, began, first - began, answer.gap, wrong)


async def _main(port: int, tenant: str = "") -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    waiting = loop.run_in_executor(None, sys.stdin.read)
    waiting.add_done_callback(lambda _: stopped.set())
    async with asyncio.TaskGroup() as group:
        for name, make in READERS.items():
            group.create_task(_read_on(name, make(Client(port), tenant), stopped))


if __name__ == "__main__":
    end_with_parent()
    pin(LOAD_CORE)
    uvloop.run(_main(int(sys.argv[1]), *sys.argv[2:]))
