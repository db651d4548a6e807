"""How a question is asked over each transport, and what came of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from tests.attack.wire import Client, Connection, Reply, bearer
from tests.integration.raw_websocket import CLOSE, TEXT, RawWebSocket, text_frame

BROKEN = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ValueError)
"""What a connection raises that ends in the midst of an answer."""


@dataclass
class Answer:
    """What came of a question.

    Args:
        first_at: when the first text came (`time.monotonic` seconds); None when none came.
        last_at: when the last text came.
        gap: the longest time between two texts that followed each other, in seconds.
        error: the code of what ended it, or of what refused it; empty when it completed.
        raw: every byte of the answer that says more than text, for attacks that look for words.
    """

    text: str = ""
    first_at: float | None = None
    last_at: float = 0.0
    gap: float = 0.0
    error: str = ""
    accepted: bool = False
    raw: str = ""
    response_id: str = ""

    def add(self, text: str) -> None:
        """More text came."""
        if not text:
            return
        now = monotonic()
        if self.first_at is None:
            self.first_at = now
        else:
            self.gap = max(self.gap, now - self.last_at)
        self.last_at = now
        self.text += text


async def ask_socket(
    websocket: RawWebSocket, message_id: str, previous: str | None, question: str
) -> Answer:
    """Ask on an open WebSocket, and read to the end of the answer.

    Raises:
        BROKEN: the connection ended.
    """
    message = chat_message(message_id, previous, question)
    websocket.write(text_frame({"type": "chat.message", **message}))
    answer = Answer()
    while True:
        frame = await websocket.frame()
        if frame.opcode == CLOSE:
            return _ended(answer, f"closed {frame.close_code}", frame.payload)
        if frame.opcode != TEXT:
            continue
        it = frame.json
        # What came before belongs to the message before.
        if it["type"] == "chat.response.start" and it["message_id"] == message_id:
            answer.accepted, answer.response_id = True, it["response_id"]
        elif it["type"] == "chat.response.delta" and it["response_id"] == answer.response_id:
            answer.add(it["delta"])
        elif it["type"] == "chat.response.completed" and it["message_id"] == message_id:
            return answer
        elif "error" in it and it.get("message_id", message_id) == message_id:
            return _ended(answer, str(it["error"].get("code")), frame.payload)


async def ask_events(
    client: Client, token: str, message_id: str, previous: str | None, question: str
) -> Answer:
    """Ask by `POST /chat/message`, and read the answer as server-sent events."""
    message = chat_message(message_id, previous, question)
    posted = await client.call("POST", "/chat/message", message, bearer(token))
    answer = Answer()
    if posted.status != 202:
        return _ended(answer, posted.code or "no answer", posted.body)
    answer.accepted, answer.response_id = True, posted.json["response_id"]
    async with client.connection() as connection:
        path = f"/chat/message/{answer.response_id}/events"
        connection.send(client.request("GET", path, headers=bearer(token)))
        head = await connection.head()
        if head.status != 200:
            return _ended(answer, str(head.status or "no answer"), b"")
        async for event in _events(connection, head):
            kind = event.get("type")
            if kind == "chat.response.delta":
                answer.add(event["delta"])
            elif kind == "chat.response.completed":
                return answer
            elif "error" in event:
                code = str(event["error"].get("code"))
                return _ended(answer, code, json.dumps(event).encode())
    return _ended(answer, "broken off", b"")


async def ask_openai(
    client: Client, question: str, headers: dict[str, str] | None = None
) -> Answer:
    """Ask by `/v1/chat/completions`, as a stream, without a key."""
    body = {
        "model": "demo",
        "stream": True,
        "messages": [{"role": "user", "content": question}],
    }
    data = json.dumps(body).encode()
    all_headers = {"Content-Type": "application/json", **(headers or {})}
    answer = Answer()
    async with client.connection() as connection:
        path = "/v1/chat/completions"
        connection.send(client.request("POST", path, data, all_headers))
        head = await connection.head()
        if head.status != 200:
            return _ended(answer, str(head.status or "no answer"), await _rest(connection, head))
        answer.accepted = True
        async for event in _events(connection, head):
            answer.response_id = event.get("id", answer.response_id)
            if "error" in event:
                code = str(event["error"].get("code"))
                return _ended(answer, code, json.dumps(event).encode())
            for choice in event.get("choices", ()):
                answer.add(choice["delta"].get("content") or "")
                if choice.get("finish_reason"):
                    return answer
    return _ended(answer, "broken off", b"")


def chat_message(message_id: str, previous: str | None, question: str) -> dict[str, Any]:
    """A message as all transports have it."""
    return {
        "message_id": message_id,
        "previous_message_id": previous,
        "payload": {"text": question},
    }


async def _events(connection: Connection, head: Reply) -> AsyncIterator[dict[str, Any]]:
    async for line in connection.body_lines(head):
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


async def _rest(connection: Connection, head: Reply) -> bytes:
    try:
        async with asyncio.timeout(1.0):
            length = int(head.headers.get("content-length", "0"))
            return await connection.reader.readexactly(length)
    except BROKEN:
        return b""


def _ended(answer: Answer, error: str, raw: bytes) -> Answer:
    answer.error = error
    answer.raw = raw.decode(errors="replace")
    return answer
