"""A fixed workload of the pure core, and a fixed loop of plain Python as a yardstick of a machine.

In the workload streams take tokens, the delivery clock batches them, and each protocol's encoder
writes what its reader would be sent. No socket is in it.
"""

from time import process_time

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import LogEncoder
from evenflow.stream_core.log.response_log import ResumePoint
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream
from tests.unit.stream_core.protocols.readers import KINDS

STREAMS = 40  # of each protocol's encoder
TOKENS = tuple(demo_tokens(7, 100))
TOKEN_SECONDS = 0.02
YARDSTICK_ROUNDS = 150_000


class _NullReader:
    """A reader whose socket takes everything."""

    transport: Transport = "http"
    user: str | None = ""
    pauses_model = False

    def __init__(self, stream: ResponseStream, encoder: LogEncoder) -> None:
        self._stream = stream
        self._encoder = encoder
        self.sent_bytes = 0
        stream.attach(self)

    @property
    def next_index(self) -> int:
        return self._encoder.cursor.next_index

    def deliver(self, _now: float, _jitter: float | None) -> None:
        self.sent_bytes += len(self._encoder.take())
        if self._encoder.cursor.at_end:
            self._stream.detach(self)

    def on_queued(self, place: QueuePlace) -> None:
        """See `Reader.on_queued`."""

    def announce_start(self) -> None:
        """See `Reader.announce_start`."""

    def on_lost(self) -> None:
        """See `Reader.on_lost`."""


def run_core() -> int:
    """Run the workload. Returns the number of its tokens.

    Raises:
        RuntimeError: a reader was sent nothing.
    """
    clock = HandTurnedClock()
    streams = [new_stream(clock) for _ in range(STREAMS * len(KINDS))]
    readers = [
        _NullReader(stream, KINDS[number % len(KINDS)].encoder(stream, ResumePoint(0)))
        for number, stream in enumerate(streams)
    ]
    for token in TOKENS:
        for stream in streams:
            stream.push(token)
        clock.turn(TOKEN_SECONDS)
    for stream in streams:
        stream.complete("stop", None)
    clock.turn(1.0)
    if not all(reader.sent_bytes for reader in readers):
        raise RuntimeError("a reader of the workload was sent nothing")
    return len(TOKENS) * len(streams)


class _Account:
    """What the yardstick calls."""

    def __init__(self) -> None:
        self.total = 0
        self.lines: list[str] = []

    def book_amount(self, key: str, amount: int) -> None:
        self.total += amount
        if amount > 4:
            self.lines.append(key)


def yardstick_seconds() -> float:
    """CPU seconds of a loop of calls, attributes, dictionaries and strings. It never changes."""
    accounts: dict[str, _Account] = {str(number): _Account() for number in range(100)}
    keys = list(accounts)
    began = process_time()
    for number in range(YARDSTICK_ROUNDS):
        key = keys[number % 100]
        accounts[key].book_amount(key + "x", number % 7)
    "".join(line for account in accounts.values() for line in account.lines)
    return process_time() - began
