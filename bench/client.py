"""The load client: picows connections that note every frame with its time of arrival, and judge
nothing while running.

A Python client on one core has to take more than 100,000 frames a second, so a frame costs two
appends here. Order, gaps, duplicates and text are checked afterwards, on all frames
(`bench.verify`).
"""

import asyncio
import logging
from array import array
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Protocol

import numpy as np
import orjson
from numpy.typing import NDArray
from picows import (
    WSError,
    WSFrame,
    WSHandshakeError,
    WSListener,
    WSMsgType,
    WSTransport,
    ws_connect,
)

from bench.verify import COMPLETED_START, DELTA_START, START_START, Response, responses

QUIET = logging.LoggerAdapter(
    logging.getLogger("bench.client")
)  # picows makes a logger per connection otherwise
HANDSHAKE_TIMEOUT_SECONDS = 15.0
RESPONSE_STARTS = (DELTA_START, COMPLETED_START, START_START)
SETTLED_RATE = 2_500  # new connections a second where setting up is not what is measured


class Reader(Protocol):
    """What asks a question and is given its answer, over whatever transport.

    Times are `time.monotonic` seconds, which are comparable between processes.
    """

    failure: str | None
    asked_at: float  # when the last question was sent

    @property
    def begun(self) -> bool:
        """Something of the answer is here."""

    @property
    def idle(self) -> bool:
        """The last answer has ended, or cannot end any more."""

    def ask(self, text: str) -> None:
        """Send the next message."""

    def deltas(self) -> Iterator[tuple[float, str]]:
        """Every frame with text: when it arrived, and the text."""

    def delta_arrivals(self, begin: float, end: float) -> NDArray[np.float64]:
        """When the frames with text between two moments arrived."""

    def response(self) -> Response:
        """The last answer as it came."""

    def close(self) -> None:
        """Leave."""


class Connection(WSListener):
    """One WebSocket client.

    Times are `time.monotonic()` seconds, which are comparable between processes.
    """

    transport: WSTransport

    def __init__(self, due: float) -> None:
        self.due = due  # when the schedule wanted it to begin
        self.frames: list[bytes] = []
        self.arrivals = array("d")
        self.failure: str | None = None
        self.asked_at = 0.0
        self._asked = 0

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport

    def on_ws_frame(self, _transport: WSTransport, frame: WSFrame) -> None:
        self.arrivals.append(monotonic())
        self.frames.append(frame.get_payload_as_bytes())

    def on_ws_disconnected(self, _transport: WSTransport) -> None:
        self.failure = self.failure or "disconnected"

    @property
    def ready(self) -> bool:
        """`session.ready`, the first frame, is here."""
        return bool(self.frames)

    @property
    def begun(self) -> bool:
        """Something came after `session.ready`."""
        return len(self.frames) > 1

    @property
    def idle(self) -> bool:
        """The last response asked for has ended, or cannot end any more."""
        return self.failure is not None or (
            bool(self.frames) and self.frames[-1].startswith(COMPLETED_START)
        )

    @property
    def message_id(self) -> str:
        """Of the last message asked."""
        return f"m{self._asked}"

    def ask(self, text: str) -> None:
        """Send the session's next message."""
        previous = self.message_id if self._asked else None
        self._asked += 1
        self.asked_at = monotonic()
        message = {
            "type": "chat.message",
            "message_id": self.message_id,
            "previous_message_id": previous,
            "payload": {"text": text},
        }
        self.transport.send(WSMsgType.TEXT, orjson.dumps(message))

    def resume(self) -> None:
        """Read on in the response that it was reading."""
        held = next(
            (frame for frame in reversed(self.frames) if frame.startswith(RESPONSE_STARTS)), None
        )
        if held is None:
            return
        frame = orjson.loads(held)
        after = frame.get("index", frame.get("last_index", -1))
        resume = {"type": "response.resume", "response_id": frame["response_id"], "after": after}
        self.transport.send(WSMsgType.TEXT, orjson.dumps(resume))

    def forget(self) -> None:
        """Drop what was received: it has been judged."""
        self.frames.clear()
        del self.arrivals[:]

    def delta_arrivals(self, begin: float, end: float) -> NDArray[np.float64]:
        """When the delta frames between two moments arrived, in seconds."""
        pairs = zip(self.arrivals, self.frames, strict=True)
        return np.array(
            [at for at, frame in pairs if begin <= at < end and frame.startswith(DELTA_START)]
        )

    def deltas(self) -> Iterator[tuple[float, str]]:
        """When each delta frame arrived, and its text."""
        for at, frame in zip(self.arrivals, self.frames, strict=True):
            if frame.startswith(DELTA_START):
                yield at, orjson.loads(frame)["delta"]

    def response(self) -> Response:
        """The last response asked for."""
        return responses(self.frames)[self.message_id]

    def close(self) -> None:
        if self.failure is None:
            self.transport.disconnect(graceful=False)


async def open_connections(
    url: str, tokens: Sequence[str], rate: float = SETTLED_RATE, source: str | None = None
) -> list[Connection]:
    """Begin `rate` connections a second, on a schedule fixed in advance; returns when each was
    accepted or failed.

    With an address as `source` they share its 28,000 ports with all that were closed within a
    minute. Without, only with those to the same server.
    """
    begin = monotonic() + 0.05
    connections = [Connection(begin + number / rate) for number in range(len(tokens))]
    opening = []
    for connection, token in zip(connections, tokens, strict=True):
        await sleep_until(connection.due)
        opening.append(asyncio.create_task(_open(url, token, connection, source)))
    await asyncio.gather(*opening)
    return connections


async def reopen(connections: Sequence[Connection], url: str, tokens: Sequence[str]) -> None:
    """Have connections that were closed come back at once, each with what it was reading.

    Returns when each was accepted or failed. Its `due` is then when it came back.
    """
    await until(lambda: all(connection.failure for connection in connections), 5.0)
    begin = monotonic()
    for connection in connections:
        connection.failure, connection.due = None, begin
    await asyncio.gather(
        *(_open(url, token, it, None) for it, token in zip(connections, tokens, strict=True))
    )
    for connection in connections:
        if connection.failure is None:
            connection.resume()


async def settled(connections: Sequence[Connection]) -> None:
    """Wait until every connection has its `session.ready` or has failed."""
    await until(
        lambda: all(it.ready or it.failure for it in connections), HANDSHAKE_TIMEOUT_SECONDS
    )


async def all_ready(connections: Sequence[Connection]) -> None:
    """Likewise, where every one is needed: RuntimeError when one did not get it."""
    await settled(connections)
    lost = [connection.failure for connection in connections if not connection.ready]
    if lost:
        raise RuntimeError(
            f"{len(lost)} of {len(connections)} connections are not ready: {lost[:3]}"
        )


async def all_idle(connections: Sequence[Reader], seconds: float) -> None:
    """Wait until every response has ended, or for `seconds`; what has not ended then is counted
    by the judge.
    """
    await until(lambda: all(connection.idle for connection in connections), seconds)


async def until(met: Callable[[], bool], seconds: float, every: float = 0.1) -> None:
    """Wait for a condition, for so long at most."""
    deadline = monotonic() + seconds
    # An event would cost something with every frame.
    while not met() and monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(every)


async def sleep_until(moment: float) -> None:
    """`moment` in `time.monotonic` seconds; returns at once when it has passed."""
    if (early := moment - monotonic()) > 0:
        await asyncio.sleep(early)


async def _open(url: str, token: str, connection: Connection, source: str | None) -> None:
    """Open a connection. One that is rejected with a time comes again at that time."""
    while True:
        try:
            await ws_connect(
                lambda: connection,
                url,
                extra_headers={
                    "Authorization": f"Bearer {token}",
                    "Sec-WebSocket-Protocol": "evenflow.v1",
                },
                websocket_handshake_timeout=HANDSHAKE_TIMEOUT_SECONDS,
                logger_name=QUIET,
                use_aiofastnet=False,
                local_addr=None if source is None else (source, 0),
                read_buffer_init_size=512,
            )
        except WSHandshakeError as rejected:
            wait = _retry_after(rejected)
            if wait is None:
                connection.failure = repr(rejected)
                return
            await asyncio.sleep(wait)
        except (OSError, TimeoutError, ValueError, WSError) as error:
            connection.failure = repr(error)
            return
        else:
            if not hasattr(connection, "transport"):  # picows says nothing of this
                connection.failure = "closed within the handshake"
            return


def _retry_after(rejected: WSHandshakeError) -> float | None:
    """The seconds after which a rejected handshake should come again. None: never."""
    if rejected.response is None or int(rejected.response.status) != 503:
        return None
    error = orjson.loads(rejected.raw_body or b"{}").get("error", {})
    wait = error.get("retry_after_ms")
    return None if wait is None else wait / 1_000
