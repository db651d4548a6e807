"""One answer, read at the same time over the WebSocket and by long-polls, with the moments at
which its text came.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from tests.integration.chat_client import ChatSession, Connection


@dataclass(frozen=True)
class Reading:
    """What one reader saw. `first_at` and `ended_at` on the monotonic clock, in seconds."""

    text: str
    first_at: float
    ended_at: float


@dataclass(frozen=True)
class AnswerReadTwice:
    """Both readings, and how many polls the second one took."""

    websocket: Reading
    polled: Reading
    polls: int

    @property
    def first_text_later_ms(self) -> float:
        """By how much the first text came later by polling; negative when it came earlier."""
        return (self.polled.first_at - self.websocket.first_at) * 1000

    @property
    def end_later_ms(self) -> float:
        """By how much the end came later by polling."""
        return (self.polled.ended_at - self.websocket.ended_at) * 1000


async def ask_and_read_twice(
    connection: Connection, message_id: str, previous: str | None, text: str
) -> AnswerReadTwice:
    """Send a message over the WebSocket; read the answer there and, while it streams, through
    the long-poll function.
    """
    start = await connection.message(message_id, previous, text)
    response_id: str = start["response_id"]
    polling = asyncio.ensure_future(_poll(connection.session, response_id))
    websocket = await _receive(connection, response_id)
    polled, polls = await polling
    return AnswerReadTwice(websocket, polled, polls)


async def _receive(connection: Connection, response_id: str) -> Reading:
    await connection.reach(response_id, 0)
    first_at = time.monotonic()
    answer = await connection.whole(response_id)
    return Reading(answer.text, first_at, time.monotonic())


async def _poll(session: ChatSession, response_id: str) -> tuple[Reading, int]:
    pieces: list[str] = []
    next_index = polls = 0
    first_at: float | None = None
    while True:
        answer = await session.poll(response_id, next_index)
        assert answer.status == 200, answer.body
        polled = answer.json
        polls += 1
        assert polled["metadata"]["restarted"] is None
        if polled["new_text"]:
            first_at = first_at or time.monotonic()
            pieces.append(polled["new_text"])
        next_index = polled["metadata"]["next_index"]
        if "full_text" in polled:
            text = "".join(pieces)
            assert polled["status"] == "completed"
            assert polled["full_text"] == text
            assert first_at is not None
            return Reading(text, first_at, time.monotonic()), polls
