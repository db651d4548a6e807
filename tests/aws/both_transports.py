"""One question, asked twice: an answer read over the WebSocket and by long-polls at the same time,
and one that is only polled. With the moments at which their text came.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from tests.integration.chat_client import ChatSession, Connection


@dataclass(frozen=True)
class Reading:
    """What one reader saw. `first_after` and `ended_after` in seconds since the message."""

    text: str
    first_after: float
    ended_after: float
    polls: int = 0


@dataclass(frozen=True)
class Readings:
    """The readings of one question.

    Args:
        websocket: over the WebSocket.
        beside: of the same answer, by polls.
        polled: of an answer that nobody else reads, by polls.
    """

    websocket: Reading
    beside: Reading
    polled: Reading


async def ask_and_read(
    connection: Connection, alone: ChatSession, message_id: str, previous: str | None, text: str
) -> Readings:
    """Send a message over the WebSocket, and the same one by `POST` in a session of its own; read
    both answers while they stream.
    """
    polled = asyncio.ensure_future(_post_and_poll(alone, message_id, previous, text))
    asked_at = time.monotonic()
    start = await connection.message(message_id, previous, text)
    response_id: str = start["response_id"]
    beside = asyncio.ensure_future(_poll(connection.session, response_id, asked_at))
    websocket = await _receive(connection, response_id, asked_at)
    return Readings(websocket, await beside, await polled)


async def _receive(connection: Connection, response_id: str, asked_at: float) -> Reading:
    await connection.reach(response_id, 0)
    first_after = time.monotonic() - asked_at
    answer = await connection.whole(response_id)
    return Reading(answer.text, first_after, time.monotonic() - asked_at)


async def _post_and_poll(
    session: ChatSession, message_id: str, previous: str | None, text: str
) -> Reading:
    asked_at = time.monotonic()
    accepted = await session.post(message_id, previous, text)
    assert accepted.status == 202, accepted.body
    return await _poll(session, accepted.json["response_id"], asked_at)


async def _poll(session: ChatSession, response_id: str, asked_at: float) -> Reading:
    pieces: list[str] = []
    next_index = polls = 0
    first_after: float | None = None
    while True:
        answer = await session.poll(response_id, next_index)
        assert answer.status == 200, answer.body
        polled = answer.json
        polls += 1
        assert polled["metadata"]["restarted"] is None
        if polled["new_text"]:
            first_after = first_after or time.monotonic() - asked_at
            pieces.append(polled["new_text"])
        next_index = polled["metadata"]["next_index"]
        if "full_text" in polled:
            text = "".join(pieces)
            assert polled["status"] == "completed"
            assert polled["full_text"] == text
            assert first_after is not None
            return Reading(text, first_after, time.monotonic() - asked_at, polls)
