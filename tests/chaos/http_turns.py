"""A reader's turns over HTTP: server-sent events and long-polls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from tests.chaos.answer_check import Kind
from tests.chaos.outcome import Cause, Outcome
from tests.chaos.session import HttpAnswer, read_whole

if TYPE_CHECKING:
    from tests.chaos.reader import Reader

_BROKEN = (aiohttp.ClientError, OSError)
# The server's comments come every 15 s.
_EVENTS_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=20)
_POLL_MS = 4_000
_POLL_SECONDS = 15.0
_GONE = (404, 410)


async def _ask(reader: Reader) -> Outcome | None:
    """Send the message; returns why it is not accepted yet."""
    answer = reader.answer
    try:
        said = await reader.session.call("POST", "/chat/message", answer.message)
    except (*_BROKEN, TimeoutError):
        return Outcome(Cause.CUT)
    if answer.posted(reader.check, said, reader.session.cookie.node_id):
        return None
    return Outcome(Cause.REFUSED, said.retry_after, code=said.code)


async def read_events(reader: Reader) -> Outcome:
    """Ask if need be, and read server-sent events until they end or the client wants another
    connection.
    """
    if reader.answer.response_id is None and (refused := await _ask(reader)) is not None:
        return refused
    had = reader.check.deltas
    try:
        async with asyncio.timeout(reader.behaviour.moves_every) as until_it_moves:
            outcome = await _read_events(reader)
    except TimeoutError:
        outcome = Outcome(Cause.OWN if until_it_moves.expired() else Cause.SILENCE)
    except _BROKEN:
        outcome = Outcome(Cause.CUT)
    return replace(outcome, progressed=reader.check.deltas > had)


async def _read_events(reader: Reader) -> Outcome:
    session, check = reader.session, reader.check
    headers = session.headers
    if check.last >= 0:
        headers["Last-Event-ID"] = (
            str(check.last) if check.epoch == 1 else f"{check.last}.{check.epoch}"
        )
    url = f"{session.url}/chat/message/{reader.answer.response_id}/events"
    async with session.http.get(url, headers=headers, timeout=_EVENTS_TIMEOUT) as answer:
        session.cookie.take(answer.headers.get("Set-Cookie"))
        name = f"sse#{id(answer) & 0xFFFF:04x}@{session.cookie.node_id[:4]}"
        check.note(name, ("sent", headers.get("Last-Event-ID"), "got", answer.status))
        if answer.status != 200:
            return await _no_events(reader, answer)
        _note_via(reader, answer.headers.get("Evenflow-Via"))
        reader.arrived()
        wait = None
        async for event in _events(answer):
            wait = _take_event(reader, name, event, wait)
            if check.ended:
                return Outcome(Cause.ENDED)
        return Outcome(Cause.CUT if wait is None else Cause.ASKED, wait)


async def _no_events(reader: Reader, answer: aiohttp.ClientResponse) -> Outcome:
    check = reader.check
    if answer.status == 204:
        check.problem(Kind.PROTOCOL, "204, but the end has not come")
        return Outcome(Cause.REFUSED, 1.0)
    return _refused(reader, await read_whole(answer))


def _refused(reader: Reader, answer: HttpAnswer) -> Outcome:
    if answer.status in _GONE:
        reader.check.problem(Kind.LOST, f"{answer.status} {answer.body}")
    elif answer.status < 500 and answer.status != 429:
        reader.check.problem(Kind.PROTOCOL, f"{answer.status} {answer.body}")
    return Outcome(Cause.REFUSED, answer.retry_after, code=answer.code)


def _take_event(
    reader: Reader, name: str, event: dict[str, str], wait: float | None
) -> float | None:
    check = reader.check
    if "retry" in event:
        wait = int(event["retry"]) / 1000
    if "data" not in event:
        return wait
    frame = orjson.loads(event["data"])
    check.note(name, frame)
    if frame["type"] == "reconnect":
        return float(frame["after_ms"]) / 1000
    if frame["response_id"] != reader.answer.response_id:
        check.problem(Kind.PROTOCOL, f"an event of another response: {frame}")
    if event.get("event") != frame["type"]:
        check.problem(
            Kind.PROTOCOL,
            f"an event named {event.get('event')} with a frame of type {frame['type']}",
        )
    check.take(frame)
    if frame["type"] == "chat.response.delta":
        index, _, epoch = event.get("id", "").partition(".")
        if index != str(check.last) or int(epoch or 1) > check.epoch:
            check.problem(
                Kind.PROTOCOL,
                f"the delta {check.last} of epoch {check.epoch} has the id {event.get('id')}",
            )
        reader.progressed()
    return wait


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[dict[str, str]]:
    rest = b""
    async for data in answer.content.iter_any():
        *whole, rest = (rest + data).split(b"\n\n")
        for block in whole:
            lines = (
                line.partition(": ")
                for line in block.decode().split("\n")
                if not line.startswith(":")
            )
            yield {name: value for name, _, value in lines}


async def poll(reader: Reader) -> Outcome:
    """Ask if need be, and poll until the end or the client wants another connection."""
    if reader.answer.response_id is None and (refused := await _ask(reader)) is not None:
        return refused
    moves = reader.behaviour.moves_every
    moves_at = None if moves is None else monotonic() + moves
    had = reader.check.deltas
    while True:
        try:
            failed = await _poll_once(reader)
        except TimeoutError:
            failed = Outcome(Cause.SILENCE)
        except _BROKEN:
            failed = Outcome(Cause.CUT)
        progressed = reader.check.deltas > had
        if failed is not None:
            return replace(failed, progressed=progressed)
        if reader.check.ended:
            return Outcome(Cause.ENDED)
        if moves_at is not None and monotonic() >= moves_at:
            return Outcome(Cause.OWN, progressed=progressed)


async def _poll_once(reader: Reader) -> Outcome | None:
    check, session = reader.check, reader.session
    asked_from, had = check.last + 1, check.length
    query = f"from_index={asked_from}&timeout_ms={_POLL_MS}&epoch={check.epoch}"
    path = f"/chat/message/{reader.answer.response_id}?{query}"
    answer = await session.call("GET", path, seconds=_POLL_SECONDS)
    check.note(
        f"poll@{session.cookie.node_id[:4]}",
        ("sent", query, "got", answer.status, _short(answer.body)),
    )
    if answer.status != 200:
        return _refused(reader, answer)
    _note_via(reader, answer.headers.get("Evenflow-Via"))
    reader.arrived(timely=False)
    check.polled(asked_from, answer.body)
    if check.length != had:
        reader.progressed()
    return None


def _note_via(reader: Reader, via: str | None) -> None:
    if via is not None:
        reader.answer.window.vias[via] += 1


def _short(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "full_text"}
