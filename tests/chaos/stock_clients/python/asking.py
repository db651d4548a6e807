"""What all drivers of clients for Python share: questions come in as lines of JSON, and what came
of each goes out as one.

A driver gives a function for each way of coming back after a break. It makes one connection, puts
what its client gives into `Told`, and returns when that has ended; it may raise whatever its client
raises.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_WAIT_SECONDS = (0.1, 1.0)
_LASTING = ("attempts_exhausted", "response_cancelled", "response_expired", "invalid_field")
"""Codes of errors that come again however often one asks."""


class Failed(Exception):
    """The server told an error with this code."""


@dataclass(frozen=True)
class Question:
    """A question. `name` is its own, and good for an Idempotency-Key.

    Args:
        way: how its client comes back.
        seconds: after which it is given up.
    """

    name: str
    text: str
    way: str
    seconds: float


@dataclass
class Said:
    """What a client has of an answer."""

    reasoning: str = ""
    text: str = ""
    call_id: str = ""
    tool: str = ""
    arguments: Any = ""
    """Their text, or what a client has made of it."""


@dataclass
class Told:
    """What came of a question.

    Attributes:
        whole: what the client says that it has at the end, where it keeps that itself.
        broken: what earlier connections gave, of a client that is given all of it again.
        errors: why connections ended, and how often.
        lasting: the code of the error that ended it.
    """

    name: str
    said: Said = field(default_factory=Said)
    whole: Said | None = None
    broken: list[Said] = field(default_factory=list)
    ended: bool = False
    connections: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    lasting: str | None = None
    cursor: Any = None

    def begin_again(self) -> None:
        """The client is given everything again."""
        if self.said != Said():
            self.broken.append(self.said)
        self.said, self.cursor = Said(), None

    def note(self, code: str) -> None:
        """A connection ended with this error."""
        self.errors[code] = self.errors.get(code, 0) + 1


Read = Callable[[Question, Told], Awaitable[None]]


async def ask(ways: Mapping[str, Read], code_of: Callable[[Exception], str]) -> None:
    """Say that it is ready, and ask what comes on standard input, all at once, until it ends.

    Args:
        code_of: what an error of the client is counted as.
    """
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("ready", flush=True)
    async with asyncio.TaskGroup() as asking:
        while line := await lines.readline():
            question = Question(**json.loads(line))
            asking.create_task(_ask(question, ways[question.way], code_of))


async def _ask(question: Question, read: Read, code_of: Callable[[Exception], str]) -> None:
    told = Told(question.name)
    try:
        async with asyncio.timeout(question.seconds):
            while not told.ended and told.lasting is None:
                await _connect(question, told, read, code_of)
    except TimeoutError:
        told.note("given up")
    print(json.dumps(asdict(told)), flush=True)


async def _connect(
    question: Question, told: Told, read: Read, code_of: Callable[[Exception], str]
) -> None:
    told.connections += 1
    try:
        await read(question, told)
    except Exception as error:
        code = code_of(error)
        told.note(code)
        if code in _LASTING:
            told.lasting = code
        await asyncio.sleep(random.uniform(*_WAIT_SECONDS))
