"""How a client reads a response over each transport, from wherever it stands, at whichever task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import aiohttp
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.integration.answer import Answer
from tests.integration.chat_client import COMPACT, V1, ChatSession, HttpAnswer, checked_error
from tests.integration.event_stream import event_id, read_answer
from tests.integration.lambda_function import LambdaFunction

Transport = Callable[[ChatSession, str, Answer, int | None], Awaitable[None]]
"""Reads on behind what the answer holds, at this session's task: to the end, or until an index
is there.
"""

# As many polls at once: a thread waits for each, as an execution environment of Lambda would.
_ENVIRONMENTS = ThreadPoolExecutor(32)
# Short, so that one who changes its transport needn't wait for the linger; one who reads to the end
# waits longer.
_POLL_MS = 300
_LAST_POLLS_MS = 5_000


class CutOff(Exception):
    """The task went away, or sent its client away. What came stands."""


class Refused(Exception):
    """The task would not. `args`: the error's code, and the status where it came by HTTP."""


async def over_websocket(
    protocol: str, session: ChatSession, response_id: str, answer: Answer, until: int | None
) -> None:
    """`response.resume` with the epoch that is known."""
    await _resume(protocol, session, response_id, answer, until, {"epoch": answer.epoch})


async def over_plain_websocket(
    session: ChatSession, response_id: str, answer: Answer, until: int | None
) -> None:
    """`response.resume` of a client that knows no epochs."""
    answer.epoch = 1
    await _resume(V1, session, response_id, answer, until, {})


async def over_events(
    session: ChatSession, response_id: str, answer: Answer, until: int | None
) -> None:
    """As an EventSource does: with the id of the last event."""
    last = event_id(answer)
    with _cut_off():
        async with session.events(
            response_id, **({"Last_Event_ID": last} if last else {})
        ) as stream:
            if stream.status != 200:
                _check(HttpAnswer(stream.status, stream.headers, await stream.read()))
            await read_answer(stream, answer, until)
    if answer.end is None and (until is None or answer.last < until):
        raise CutOff("the stream ended before the response")


async def over_polls(
    session: ChatSession, response_id: str, answer: Answer, until: int | None
) -> None:
    """At the handler, with the epoch that is known."""
    await _poll(lambda path: session.call("GET", path), response_id, answer, until)


async def over_plain_polls(
    session: ChatSession, response_id: str, answer: Answer, until: int | None
) -> None:
    """At the handler, by a client that knows no epochs."""
    answer.epoch = 1
    await _poll(
        lambda path: session.call("GET", path.partition("&epoch")[0]), response_id, answer, until
    )


async def over_function(
    function: LambdaFunction,
    session: ChatSession,
    response_id: str,
    answer: Answer,
    until: int | None,
) -> None:
    """At the poll function, which is one execution environment and takes one poll at a time."""

    async def call(path: str) -> HttpAnswer:
        headers = {"Authorization": f"Bearer {session.token}"}
        invocation = partial(function.call, "GET", path, headers=headers)
        return await asyncio.get_running_loop().run_in_executor(_ENVIRONMENTS, invocation)

    await _poll(call, response_id, answer, until)


AT_HANDLERS: dict[str, Transport] = {
    "websocket": partial(over_websocket, V1),
    "compact": partial(over_websocket, COMPACT),
    "events": over_events,
    "polls": over_polls,
}
"""Every transport of the handler, as a client that knows epochs uses it."""

WITHOUT_EPOCHS: dict[str, Transport] = {
    "plain websocket": over_plain_websocket,
    "plain polls": over_plain_polls,
}
"""Likewise, as a client does that knows none. Of server-sent events it needn't know anything."""


async def read_whole(
    transport: Transport,
    sessions: Iterable[ChatSession],
    response_id: str,
    answer: Answer | None = None,
) -> Answer:
    """Read to the end as a client does: cut off at one task, it goes on at the next."""
    answer = answer or Answer()
    for session in sessions:
        try:
            await transport(session, response_id, answer, None)
        except CutOff:
            await asyncio.sleep(0.1)
        else:
            return answer
    raise AssertionError(f"cut off everywhere, with {answer.last + 1} entries of the response")


# -- inside ----------------------------------------------------------------------------------------


async def _resume(
    protocol: str,
    session: ChatSession,
    response_id: str,
    answer: Answer,
    until: int | None,
    known: dict[str, int],
) -> None:
    with _cut_off():
        async with session.connect(protocol) as connection:
            connection.answers[response_id] = answer
            await connection.send(
                "response.resume", response_id=response_id, after=answer.last, **known
            )
            said = await connection.next_of(
                "chat.response.start", "error", "throttle", "system.busy", seconds=40
            )
            if said["type"] != "chat.response.start":
                raise Refused(checked_error(said)["code"])
            while answer.end is None and (until is None or answer.last < until):
                await connection.receive(40)


async def _poll(
    call: Callable[[str], Awaitable[HttpAnswer]],
    response_id: str,
    answer: Answer,
    until: int | None,
) -> None:
    timeout_ms = _LAST_POLLS_MS if until is None else _POLL_MS
    while answer.end is None and (until is None or answer.last < until):
        path = (
            f"/chat/message/{response_id}?from_index={answer.last + 1}"
            f"&timeout_ms={timeout_ms}&epoch={answer.epoch}"
        )
        with _cut_off():
            polled = await call(path)
        if polled.status == 503 and polled.error["code"] == "response_elsewhere":
            # What is held isn't on record yet; whoever owns the response now, or next, will tell.
            await asyncio.sleep(int(polled.headers["Retry-After"]))
            continue
        _check(polled)
        answer.take_poll(polled.json)


def _check(answer: HttpAnswer) -> None:
    if answer.status != 200:
        raise Refused(answer.error["code"] if answer.body else "", answer.status)


@contextmanager
def _cut_off() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise
    except (ConnectionClosed, InvalidHandshake, aiohttp.ClientError, OSError) as error:
        raise CutOff(f"{type(error).__name__}: {error}") from error
