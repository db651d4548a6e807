"""The load client of event streams: HTTP over bare sockets, whose bytes are noted with their time
of arrival and judged when the clock has stopped (`bench.verify`), as `bench.client` does for
WebSockets.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np
import orjson
from numpy.typing import NDArray

from bench.client import SETTLED_RATE, sleep_until
from bench.event_streams import Event, ProtocolError, events, http_body
from bench.verify import Response

END_OF_HEAD = b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
RESPONSE_ID = re.compile(rb'"response_id":"([^"]+)"')


class EventReader(asyncio.Protocol, ABC):
    """One connection that asks a question and reads its answer as server-sent events."""

    def __init__(self, host: str, token: str) -> None:
        self.failure: str | None = None
        self.asked_at = 0.0
        self._host = host
        self._token = token
        self._pieces: list[bytes] = []
        self._arrivals = array("d")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is one in all but its base class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._arrivals.append(monotonic())
        self._pieces.append(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self.failure = self.failure or "disconnected"

    @property
    def begun(self) -> bool:
        """Something of the answer is here."""
        return bool(self._pieces)

    @property
    def idle(self) -> bool:
        """The answer has ended, or cannot end any more."""
        # As many pieces as the last chunk may come in.
        return self.failure is not None or b"".join(self._pieces[-len(LAST_CHUNK) :]).endswith(
            LAST_CHUNK
        )

    @abstractmethod
    def ask(self, text: str) -> None:
        """Send the question."""

    @abstractmethod
    def deltas(self) -> Iterator[tuple[float, str]]:
        """When each piece of text arrived, in `time.monotonic` seconds, and what it was."""

    @abstractmethod
    def response(self) -> Response:
        """The answer as it came."""

    def close(self) -> None:
        self._transport.abort()

    def events(self) -> Iterator[Event]:
        """Everything that has come so far. Nothing where the answer is an error."""
        pieces = list(zip(self._arrivals, self._pieces, strict=True))
        with suppress(ProtocolError):
            yield from (event for event in events(http_body(pieces)) if event.data)

    def delta_arrivals(self, begin: float, end: float) -> NDArray[np.float64]:
        """When the events with text between two moments arrived."""
        return np.array([at for at, _ in self.deltas() if begin <= at < end])

    def _send(self, method: str, path: str, body: object = None) -> None:
        payload = b"" if body is None else orjson.dumps(body)
        self._transport.write(
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Authorization: Bearer {self._token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(payload)}\r\n\r\n".encode()
            + payload
        )


class ResponseReader(EventReader):
    """Posts a message and reads `/chat/message/{id}/events` on the same connection."""

    _posted = False

    def ask(self, text: str) -> None:
        self._posted = True
        self.asked_at = monotonic()
        message = {"message_id": "m1", "previous_message_id": None, "payload": {"text": text}}
        self._send("POST", "/chat/message", message)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._posted:
            self._read_events()

    def deltas(self) -> Iterator[tuple[float, str]]:
        for event in self.events():
            frame = orjson.loads(event.data)
            if frame["type"] == "chat.response.delta":
                yield event.arrived, frame["delta"]

    def response(self) -> Response:
        response = Response()
        for event in self.events():
            response.take(orjson.loads(event.data))
        return response

    def _read_events(self) -> None:
        """Ask for the events as soon as the message's answer is here."""
        answer = b"".join(self._pieces)
        if END_OF_HEAD not in answer or not answer.endswith(b"}"):
            return
        self._posted = False
        self._pieces.clear()
        del self._arrivals[:]
        if (named := RESPONSE_ID.search(answer)) is None:
            self.failure = answer.decode(errors="replace")[-300:]
        else:
            self._send("GET", f"/chat/message/{named[1].decode()}/events")


class AudienceReader(ResponseReader):
    """Reads a response that another connection has asked for. Its token is a ticket."""

    def ask(self, text: str) -> None:
        """`text` is the response's id."""
        self.asked_at = monotonic()
        self._send("GET", f"/chat/message/{text}/events")


class CompletionReader(EventReader):
    """Asks `/v1/chat/completions` for a stream."""

    def ask(self, text: str) -> None:
        self.asked_at = monotonic()
        messages = [{"role": "user", "content": text}]
        request = {"model": "demo", "stream": True, "messages": messages}
        self._send("POST", "/v1/chat/completions", request)

    def deltas(self) -> Iterator[tuple[float, str]]:
        for event in self.events():
            if text := _choice(event)["delta"].get("content"):
                yield event.arrived, text

    def response(self) -> Response:
        """Chunks don't say which deltas they join: what is missing or twice shows in the text."""
        response = Response()
        for event in self.events():
            choice = _choice(event)
            if text := choice["delta"].get("content"):
                response.append(text)
            response.finish_reason = choice["finish_reason"] or response.finish_reason
        return response


async def open_readers(
    kind: type[EventReader], url: str, tokens: Sequence[str], rate: float = SETTLED_RATE
) -> list[EventReader]:
    """Open so many connections a second; nothing is asked yet.

    Raises:
        OSError: one could not be opened.
    """
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    loop, begin = asyncio.get_running_loop(), monotonic()
    readers = []
    for number, token in enumerate(tokens):
        await sleep_until(begin + number / rate)
        reader = kind(address.netloc, token)
        await loop.create_connection(lambda reader=reader: reader, address.hostname, address.port)  # type: ignore[misc]
        readers.append(reader)
    return readers


def _choice(event: Event) -> dict[str, Any]:
    """What a chunk of `/v1` says of its only choice; an error is a finish reason."""
    chunk = {} if event.data == b"[DONE]" else orjson.loads(event.data)
    if "error" in chunk:
        return {"delta": {}, "finish_reason": "error"}
    return next(iter(chunk.get("choices", ())), {"delta": {}, "finish_reason": None})
