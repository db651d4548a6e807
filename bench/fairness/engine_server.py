"""The engine behind an OpenAI-compatible API: `python -m bench.fairness.engine_server PORT`.

With `--fleet` it is a service of as many machines as the engine has sequences, that refuses more.

A question `#engine tokens=200 first=7` is answered with so many tokens. Each is 16 characters, as
those of `bench.upstream`; the numbers begin at `first`. With ` preferred` its prompt is computed
before others. A prompt has a token for every four characters of the messages. `GET /answers` says,
by `first`, when each request came, when it was taken into the batch, and when its first token was
sent, in seconds of `time.monotonic`.
"""

import asyncio
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol, cast

import orjson
import uvloop

from bench.fairness.engine import CHARACTERS_A_TOKEN, Costs, Engine, Request
from bench.upstream import CONTENT_LENGTH, EVENT, HEAD, chunk, json_response, now_us

DIRECTIVE = re.compile(r"#engine tokens=(\d+) first=(\d+)( preferred)?")
LAST_EVENTS = (
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":0,"model":"bench",'
    b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":0,"model":"bench",'
    b'"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}\n\n'
    b"data: [DONE]\n\n"
)
_TOO_MANY = b'{"error":{"message":"too many calls at once","code":"rate_limit_exceeded"}}'
REFUSAL = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: %d\r\n\r\n%s" % (
    len(_TOO_MANY), _TOO_MANY
)  # fmt: skip


def question(prompt: int, answer: int, first: int, preferred: bool = False) -> str:
    """A prompt of so many tokens that asks for an answer of so many."""
    directive = f" #engine tokens={answer} first={first}{' preferred' if preferred else ''}"
    return "x" * max(0, prompt * CHARACTERS_A_TOKEN - len(directive)) + directive


class Caller(Protocol):
    """Who is told each token of its request."""

    def send_token(self) -> None:
        """There is one more."""


class Refused(Exception):
    """All machines of a service answer."""


class Model(ABC):
    """What is asked: an engine, or a service. It is told to remove each request that it has taken.

    Args:
        now: seconds, of the figures in `answers`.
    """

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self.answers: dict[int, tuple[float, float, float]] = {}
        """Of each number when its request came, was taken, and had its first token."""

    @property
    @abstractmethod
    def running(self) -> int:
        """Requests that are answered."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Requests that wait for others to end."""

    @abstractmethod
    def add(self, request: Request, caller: Caller) -> None:
        """Answer a request. Raises `Refused` where there are too many."""

    @abstractmethod
    def remove(self, request: Request) -> None:
        """Its caller has left, or has its last token."""

    def begun(self, first: int, request: Request) -> None:
        """The first token of a request, known by its number `first`, is sent now."""
        assert request.admitted is not None
        self.answers[first] = (request.arrived, request.admitted, self._now())


class EngineLoop(Model):
    """Steps of the engine in the loop's time, as long as there is anything to do."""

    def __init__(self, now: Callable[[], float] = monotonic, costs: Costs = Costs()) -> None:  # noqa: B008
        super().__init__(now)
        self._engine = Engine(costs)
        self._callers: dict[Request, Caller] = {}
        self._loop = asyncio.get_running_loop()
        self._stepping = False

    @property
    def running(self) -> int:
        return self._engine.running

    @property
    def waiting(self) -> int:
        return self._engine.waiting

    def add(self, request: Request, caller: Caller) -> None:
        request.arrived = self._now()
        self._callers[request] = caller
        self._engine.add(request)
        if not self._stepping:
            self._stepping = True
            self._step(self._loop.time())

    def remove(self, request: Request) -> None:
        if self._callers.pop(request, None) is not None:
            self._engine.remove(request)

    def _step(self, due: float) -> None:
        if self._engine.idle:
            self._stepping = False
            return
        step = self._engine.step(self._now())
        # By the schedule, so that late timers don't make the engine slower.
        due = max(due, self._loop.time() - step.seconds) + step.seconds
        self._loop.call_at(due, self._end_step, step.answered, due)

    def _end_step(self, answered: Sequence[Request], due: float) -> None:
        for request in answered:
            if caller := self._callers.get(request):
                caller.send_token()
        self._step(due)


class Fleet(Model):
    """Machines with the times of the engine. Each answers one call, and none waits for another."""

    waiting = 0

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        super().__init__(now)
        self._idle = [EngineLoop(now) for _ in range(Costs().sequences)]
        self._machines: dict[Request, EngineLoop] = {}

    @property
    def running(self) -> int:
        return len(self._machines)

    def add(self, request: Request, caller: Caller) -> None:
        if not self._idle:
            raise Refused
        machine = self._machines[request] = self._idle.pop()
        machine.add(request, caller)

    def remove(self, request: Request) -> None:
        if (machine := self._machines.pop(request, None)) is not None:
            machine.remove(request)
            self._idle.append(machine)


class Connection(asyncio.Protocol):
    """One keep-alive connection: reads a request, streams the answer, reads the next."""

    def __init__(self, engine: Model) -> None:
        self._engine = engine
        self._request: Request | None = None
        self._first = self._sent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is one in all but its base class.
        self._transport = cast("asyncio.Transport", transport)
        self._received = b""

    def connection_lost(self, _error: Exception | None) -> None:
        if self._request is not None:
            self._engine.remove(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if separator and head.startswith(b"GET"):
            self._received = b""
            self._transport.write(json_response(self._figures()))
            return
        length = CONTENT_LENGTH.search(head)
        if separator and length and len(body) >= int(length[1]):
            self._received = b""
            self._begin("".join(it["content"] for it in orjson.loads(body)["messages"]))

    def _begin(self, text: str) -> None:
        tokens, first, preferred = DIRECTIVE.findall(text)[-1]
        self._first, self._sent = int(first), 0
        prompt = -(-len(text) // CHARACTERS_A_TOKEN)
        request = Request(prompt, int(tokens), bool(preferred))
        try:
            self._engine.add(request, self)
        except Refused:
            self._transport.write(REFUSAL)
            return
        self._request = request
        self._transport.write(HEAD)

    def send_token(self) -> None:
        request = self._request
        assert request is not None
        if not self._sent:
            self._engine.begun(self._first, request)
        events = chunk(EVENT % (b"%06d%09d " % (self._sent, now_us())))
        self._sent += 1
        if self._sent == request.answer:
            self._request = None
            self._engine.remove(request)
            counts = request.prompt, request.answer, request.prompt + request.answer
            events += chunk(LAST_EVENTS % counts) + chunk(b"")
        self._transport.write(events)

    def _figures(self) -> dict[str, object]:
        engine = self._engine
        return {
            "running": engine.running,
            "waiting": engine.waiting,
            "answers": {str(first): times for first, times in engine.answers.items()},
        }


async def serve(port: int, fleet: bool) -> None:
    engine = Fleet() if fleet else EngineLoop()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(engine), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), fleet="--fleet" in sys.argv))
