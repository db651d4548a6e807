"""Polls at any time, whatever the owners do meanwhile: what the reader has is the log's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.functions.poll_response.long_poll import PollResult
from evenflow.stream_core.log.entries import Content, LogEntry, Part, PartKind, Restart, joined
from evenflow.stream_core.log.response_log import Cursor, ResponseLog, resume_point, slice_of
from evenflow.stream_core.protocols.evenflow.part_objects import PartObject
from evenflow.stream_core.stores.response_store import Chunk, gapless
from tests.unit.functions.response_buffer import LOOK, START, Buffer, at_once
from tests.unit.stream_core.log.contents import CONTENT


@dataclass
class Reader:
    """What a client holds."""

    said: list[Content] = field(default_factory=list)
    next_index: int = 0
    epoch: int = 1

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(content for content in self.said if isinstance(content, str))

    @property
    def contents(self) -> list[Content]:
        """The text and the parts, joined."""
        return [*joined(self.said)]

    def take_poll(self, result: PollResult) -> None:
        """The answer to a poll for what comes next."""
        body = result.polled.to_body()
        metadata = body["metadata"]
        assert body["chunk_index"] == metadata["next_index"] - 1
        if metadata["restarted"] is not None:
            assert metadata["restarted"]["from_index"] == -1
            self.said = []
        self.said += told(body)
        # The index goes back only where a later owner's text replaces everything.
        assert metadata["epoch"] > self.epoch or metadata["next_index"] >= self.next_index
        assert metadata["epoch"] >= self.epoch
        self.next_index, self.epoch = metadata["next_index"], metadata["epoch"]

    def take(self, entry: LogEntry, first: int, last: int) -> None:
        """A frame, over a socket."""
        assert first == self.next_index
        self.next_index = last + 1
        if not isinstance(entry, Restart):
            self.said.append(entry)
            return
        assert entry.from_index in (-1, first - 1)
        if entry.from_index == -1:
            self.said = []
        self.epoch = max(self.epoch, entry.epoch)


def told(body: dict[str, Any]) -> Iterator[Content]:
    """What a poll gave: its events, and the text before, between and behind them."""
    text, at, index = body["new_text"], 0, -1
    for event in body.get("events", ()):
        assert at <= event["at"] <= len(text)
        assert index < event["index"] <= body["chunk_index"]
        if at < event["at"]:
            yield text[at : event["at"]]
        at, index = event["at"], event["index"]
        yield PartObject.model_validate(event).to_part()
    if at < len(text):
        yield text[at:]


def standing(entries: Sequence[LogEntry]) -> list[Content]:
    """What stands of a log, joined."""
    return [*joined(slice_of(entries, 0).current)]


# -- one owner -------------------------------------------------------------------------------------

ENTRIES = st.lists(
    st.one_of(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=5), CONTENT, st.just("restart")
    ),
    max_size=25,
)


def as_log(entries: Sequence[Content]) -> list[LogEntry]:
    attempts = accumulate((entry == "restart" for entry in entries), initial=1)
    return [
        Restart(-1, attempt) if entry == "restart" and index else entry
        for index, (entry, attempt) in enumerate(zip(entries, list(attempts)[1:], strict=True))
    ]


@given(
    ENTRIES,
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from([0.0, 0.03, 0.15, 0.15, 1.0, 3.0])),
        max_size=25,
    ),
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.0, 0.2, 2.5]), st.sampled_from([0.0, 0.1, 1.0, 10.0, 25.0])
        ),
        max_size=12,
    ),
    st.integers(0, 3),
)
@settings(max_examples=2 * settings().max_examples)
def test_polling_at_any_time_gives_exactly_the_logs_text(
    entries: list[Content],
    cuts: list[tuple[int, float]],
    timing: list[tuple[float, float]],
    doubled: int,
) -> None:
    log, buffer = as_log(entries), Buffer()
    written, moment = 0, 0.0
    for size, pause in [*cuts, (len(log), 0.1)]:
        moment += pause
        # Now and then a chunk is written again, longer, since nobody knew that it had been taken.
        first = max(0, written - doubled)
        piece = log[first : written + size]
        if piece and written < len(log):
            buffer.at(moment, partial(buffer.write, *piece, first_index=first))
        written = min(len(log), written + size)
    buffer.at(moment + 0.01, buffer.end)
    reader, polls = Reader(), 0
    result = None
    for pause, timeout in [*timing, *[(0.0, 10.0)] * 200]:
        if pause:
            buffer.sleep(pause)
        result = buffer.poll(reader.next_index, timeout)
        polls += 1
        reader.take_poll(result)
        # At each moment the reader holds what the log says up to there.
        assert reader.contents == standing(log[: reader.next_index])
        assert result.late_ms >= 0
        if result.polled.status.terminal:
            break
    assert result is not None
    assert reader.text == result.polled.full_text
    assert reader.contents == standing(log)
    assert result.polls == polls


# -- owners that are lost --------------------------------------------------------------------------

_LONGEST_POLL = 10.0
_MOST_POLLS = 200


class Owners:
    """Who answers, one after the other.

    Each has a log of its own, of which not everything gets on record.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._written = 0
        self._late: list[Chunk] = []
        self.logs = {1: ResponseLog()}
        """By epoch, those of lost owners included: they may still deliver, and not know it."""

    @property
    def log(self) -> ResponseLog | None:
        """The owner's; None while it has claimed the response and not begun."""
        return self.logs.get(self._buffer.lease.epoch)

    def generate(self, count: int) -> None:
        """The model goes on."""
        if self.log is not None:
            for _ in range(count):
                index = self.log.next_index
                said = f"{self._buffer.lease.epoch}.{index} "
                self.log.extend([said if index % 4 < 2 else Part(PartKind.REASONING, said)])

    def restart(self) -> None:
        """An attempt failed, the same owner makes another."""
        if self.log is not None and self.log.next_index:
            self.log.restart(-1, 1 + _last_attempt(self.log.entries))

    def record(self, most: int, *, late: bool) -> None:
        """What isn't on record yet is written, or sent and arrives when it likes."""
        if self.log is None or not (
            entries := tuple(self.log.entries[self._written : self._written + most])
        ):
            return
        chunk = Chunk("r", self._buffer.lease.epoch, self._written, entries, START)
        if late:
            self._late.append(chunk)
        else:
            at_once(self._buffer.store.append([chunk]))
            self._written += len(entries)

    def arrive(self) -> None:
        """What was sent comes."""
        at_once(self._buffer.store.append(self._late))
        self._late = []

    def claim(self) -> None:
        """The owner is lost, with all that isn't on record; another task takes the response."""
        self._buffer.claim()

    def begin(self, *, continues: bool) -> None:
        """It says from where on, and goes on with what is on record."""
        if self.log is not None:
            return
        self._buffer.begin()
        log = self.logs[self._buffer.lease.epoch] = ResponseLog()
        log.extend(gapless(self._buffer.head, self._buffer.store._chunks["r"], 0).entries)
        self._written = log.next_index
        log.restart(
            self._written - 1 if continues else -1,
            1 + _last_attempt(log.entries),
            self._buffer.lease.epoch,
        )

    def end(self) -> None:
        """The last one says its last word, and what is still on its way comes."""
        self.begin(continues=True)
        self.generate(1)
        self.record(10_000, late=False)
        self.arrive()
        self._buffer.next_index = self._written
        self._buffer.end()


def _last_attempt(entries: Sequence[LogEntry]) -> int:
    return max((entry.attempt for entry in entries if isinstance(entry, Restart)), default=1)


def read_over_socket(
    log: ResponseLog, reader: Reader, epoch: int | None, frames: int, most: int
) -> None:
    """Resume at a task that has this log, and take some frames of at most so many characters."""
    point = resume_point(log, reader.next_index - 1, epoch)
    if point is None:
        return
    if point.restarted is not None:
        reader.said, reader.next_index, reader.epoch = [], 0, point.restarted.epoch
    cursor = Cursor(log, point.next_index, most)
    for _ in range(frames):
        if (taken := cursor.next_entry()) is not None:
            reader.take(taken, cursor.first, cursor.last)


EVENTS = st.one_of(
    st.tuples(st.just("generate"), st.integers(1, 4)),
    st.tuples(st.just("generate"), st.integers(1, 4)),
    st.tuples(st.just("record"), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("record"), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("lose"), st.sampled_from([0.0, 0.3]), st.booleans()),
    st.tuples(st.just("restart")),
    st.tuples(st.just("arrive")),
)
READS = st.one_of(
    st.tuples(st.just("poll"), st.sampled_from([0.0, 0.2, 3.0])),
    st.tuples(st.just("socket"), st.integers(1, 3), st.integers(1, 6), st.sampled_from([1, 20])),
)


@dataclass
class Play:
    """One reader, who polls and now and then has a socket to one of the owners, while they come
    and go.
    """

    tells_epoch: bool
    buffer: Buffer = field(default_factory=Buffer)
    reader: Reader = field(default_factory=Reader)
    full_text: str | None = None
    """Once the response has ended."""

    def __post_init__(self) -> None:
        self.owners = Owners(self.buffer)

    def plan(self, events: Sequence[tuple[object, ...]], pauses: Iterator[float]) -> None:
        """What happens, and when; the end last."""
        moment = 0.0
        for event in events:
            moment += next(pauses)
            match event:
                case ("lose", float(takes), bool(continues)):
                    self.buffer.at(moment, self.owners.claim)
                    self.buffer.at(moment + takes, partial(self.owners.begin, continues=continues))
                case ("record", int(most), bool(late)):
                    self.buffer.at(moment, partial(self.owners.record, most, late=late))
                case (str(what), *arguments):
                    self.buffer.at(moment, partial(getattr(self.owners, what), *arguments))
        self.buffer.at(moment + 1.0, self.owners.end)

    def interleave(self, whether: Iterator[bool], *, head_first: bool) -> None:
        """Let what would happen next happen between two reads of one poll."""

        def perhaps() -> None:
            if next(whether, False):
                self.buffer.hurry()

        self.buffer.readers.before_the_answer = self.buffer.readers.within_a_look = perhaps
        self.buffer.readers.head_first = head_first

    def read(self, read: tuple[object, ...]) -> None:
        """Poll, or take frames from one of the owners."""
        reader = self.reader
        if not self.tells_epoch:
            reader.epoch = 1
        match read:
            case ("poll", float(timeout)):
                self._poll(timeout)
            case ("socket", int(epoch), int(frames), int(most)) if epoch in self.owners.logs:
                told = reader.epoch if self.tells_epoch else None
                read_over_socket(self.owners.logs[epoch], reader, told, frames, most)
        if self.tells_epoch:
            # At each moment it holds what the newest owner that it was told of has up to there.
            log = self.owners.logs[reader.epoch]
            assert reader.contents == standing(log.entries[: reader.next_index])

    def _poll(self, timeout: float) -> None:
        buffer, reader = self.buffer, self.reader
        slept, looks = buffer.slept, len(buffer.readers.looks)
        result = buffer.poll(reader.next_index, timeout, epoch=reader.epoch)
        assert result.late_ms >= 0
        # It pauses between two looks, whatever they found; one is the first, one may be for the
        # whole text.
        assert len(buffer.readers.looks) - looks <= (buffer.slept - slept) / (LOOK - 0.02) + 3
        reader.take_poll(result)
        self.full_text = result.polled.full_text


@pytest.mark.parametrize("tells_epoch", [True, False])
@given(
    events=st.lists(EVENTS, max_size=30),
    pauses=st.lists(st.sampled_from([0.0, 0.05, 0.2, 1.0]), min_size=30, max_size=30),
    reads=st.lists(READS, max_size=20),
    interleaved=st.lists(st.booleans(), max_size=40),
    head_first=st.booleans(),
)
def test_owners_that_are_lost_with_what_is_not_on_record(
    tells_epoch: bool,
    events: list[tuple[object, ...]],
    pauses: list[float],
    reads: list[tuple[object, ...]],
    interleaved: list[bool],
    head_first: bool,
) -> None:
    play = Play(tells_epoch)
    play.plan(events, iter(pauses))
    play.interleave(iter(interleaved), head_first=head_first)
    polls: list[tuple[object, ...]] = [("poll", _LONGEST_POLL)] * _MOST_POLLS
    for read in [*reads, *polls]:
        play.read(read)
        if play.full_text is not None:
            break
    log = play.owners.log
    assert log is not None
    assert play.reader.text == play.full_text
    assert play.reader.contents == standing(log.entries)
