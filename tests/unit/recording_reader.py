"""A reader that writes down what it is given, and puts it together as the protocol tells a
client to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Content, LogEntry, Restart, joined
from evenflow.stream_core.log.response_log import Cursor, ResponseLog
from tests.unit.hand_turned_clock import HandTurnedClock


@dataclass
class AssembledText:
    """What a client holds of a response: pieces by the indexes that they cover."""

    spans: list[tuple[int, int, Content]] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    """Every index that it was given, in the order in which it was."""

    @property
    def text(self) -> str:
        """What the user sees of the answer's text."""
        return "".join(said for _, _, said in self.spans if isinstance(said, str))

    @property
    def contents(self) -> list[Content]:
        """All that the user sees, joined."""
        return list(joined(said for _, _, said in self.spans))

    @property
    def next_index(self) -> int:
        """Where it would resume."""
        return self.indexes[-1] + 1 if self.indexes else 0

    def take(self, taken: LogEntry, first: int, last: int) -> None:
        """A delta or a part is appended; a restart keeps what stands up to its `from_index`."""
        self.indexes.extend(range(first, last + 1))
        if isinstance(taken, Restart):
            self.spans = [span for span in self.spans if span[1] <= taken.from_index]
        else:
            self.spans.append((first, last, taken))

    def drain(self, cursor: Cursor) -> None:
        """Take all that there is."""
        while (taken := cursor.next_entry()) is not None:
            self.take(taken, cursor.first, cursor.last)


def standing_text(log: ResponseLog, entries: int | None = None) -> AssembledText:
    """What a client holds that was given the log's first `entries` one by one."""
    held = AssembledText()
    for index, entry in enumerate(log.entries[:entries]):
        held.take(entry, index, index)
    return held


@dataclass(frozen=True)
class Delivery:
    """One call of `deliver` that brought something."""

    slot: int
    taken: tuple[LogEntry, ...]
    jitter: float | None


class RecordingReader:
    """A reader whose socket always has room; `paused` is set by `pause` and `resume`."""

    transport: Transport = "http"

    def __init__(
        self,
        stream: ResponseStream,
        clock: HandTurnedClock,
        held: AssembledText,
        most: int = 16_384,
    ) -> None:
        self.held = held
        self.deliveries: list[Delivery] = []
        self.places: list[QueuePlace] = []
        self.paused = False
        self.user: str | None = None
        self.pauses_model = False
        self.left_behind = False
        self._stream = stream
        self._clock = clock
        self._cursor = Cursor(stream.log, held.next_index, most)

    @property
    def next_index(self) -> int:
        """See `Reader.next_index`."""
        return self._cursor.next_index

    def deliver(self, now: float, jitter: float | None) -> None:
        """See `Reader.deliver`."""
        assert now == self._clock.now
        if self.paused:
            return
        taken_now: list[LogEntry] = []
        while (taken := self._cursor.next_entry()) is not None:
            self.held.take(taken, self._cursor.first, self._cursor.last)
            taken_now.append(taken)
        if taken_now:
            self.deliveries.append(
                Delivery(self._clock.delivery.position, tuple(taken_now), jitter)
            )
        if self._cursor.at_end:
            self.leave()

    def on_queued(self, place: QueuePlace) -> None:
        """See `Reader.on_queued`."""
        self.places.append(place)

    def announce_start(self) -> None:
        """See `Reader.announce_start`."""

    def on_lost(self) -> None:
        """See `Reader.on_lost`."""
        self.left_behind = True

    def pause(self) -> None:
        """Take nothing until `resume`."""
        if not self.paused:
            self.paused = True
            self._stream.backpressure.pause_reader()

    def resume(self) -> None:
        """Go on, at once."""
        if self.paused:
            self._end_pause()
            self.deliver(self._clock.now, None)

    def leave(self) -> None:
        """Read no more."""
        if self.paused:
            self._end_pause()
        self._stream.detach(self)

    def _end_pause(self) -> None:
        self.paused = False
        self._stream.backpressure.unpause_reader()
