from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from evenflow.fargate_handler.runtime.bounded_log import REPEATED, UNREAD, BoundedLog, LineWriter
from evenflow.fargate_handler.runtime.log_formats import LineFormatter
from evenflow.stream_core.bounds.log_rate import EACH
from evenflow.stream_core.records.event_record import EventRecord
from tests.full_pipe import full_pipe
from tests.unit.hand_turned_clock import HandTurnedClock


class Log:
    """A logger that writes into a pipe."""

    def __init__(self, descriptor: int, most_waiting: int = 1_000_000) -> None:
        self.clock = HandTurnedClock()
        self.counted: Counter[str] = Counter()
        self.writer = LineWriter(descriptor, most_waiting)
        self.handler = BoundedLog(self.writer, self._count, self.clock.monotonic)
        self.handler.setFormatter(LineFormatter("%(levelname)s %(name)s: %(message)s"))
        self.logger = logging.Logger("ours")
        self.logger.addHandler(self.handler)

    def wait_until_counted(self) -> None:
        """Wait for the writer's thread, which counts what it has written a moment later."""
        while self.writer.full:
            time.sleep(0.001)

    def _count(self, reason: str) -> None:
        self.counted[reason] += 1


class Read:
    """A log that is read at its end."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self.log = Log(self._writing)

    def lines(self) -> list[str]:
        """Close the log, and read it."""
        self.log.handler.close()
        os.close(self._writing)
        with os.fdopen(self._reading, encoding="utf-8") as written:
            return written.read().splitlines()


@pytest.fixture
def read() -> Read:
    return Read()


def test_one_line_a_second_of_a_kind_whatever_its_values(read: Read) -> None:
    log = read.log
    for number in range(400):
        log.logger.error("client %d is broken", number)
    log.logger.info("something else")
    log.clock.turn(1.0)
    log.logger.error("client %d is broken", 7)
    assert read.lines() == [
        "ERROR ours: client 0 is broken",
        "INFO ours: something else",
        "ERROR ours: client 7 is broken (399 more of this kind were left out)",
    ]
    assert log.counted == {REPEATED: 399}


def test_a_message_of_values_only_is_told_by_the_first(read: Read) -> None:
    for what in ("the keys stay", "the agents stay", "the keys stay"):
        read.log.logger.error("%s: %s", what, OSError("a reason"))
    assert read.lines() == [
        "ERROR ours: the keys stay: a reason",
        "ERROR ours: the agents stay: a reason",
    ]


def test_what_nothing_else_says_is_logged_each_time(read: Read) -> None:
    for number in range(3):
        read.log.logger.error("dead letter: %d", number, extra=EACH)
    assert [line[-1] for line in read.lines()] == ["0", "1", "2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Happened(EventRecord):
    EVENT: ClassVar[str] = "happened"

    code: str

    @property
    def kind(self) -> str:
        return f"{self.EVENT} {self.code}"

    def __str__(self) -> str:
        return f"happened: {self.code}"


class _Each(_Happened):
    MOST_PER_SECOND: ClassVar[int | None] = None


class _Two(_Happened):
    MOST_PER_SECOND: ClassVar[int | None] = 2


@pytest.mark.parametrize(
    ("event", "lines"), [(_Each, ["a", "a", "a", "b"]), (_Two, ["a", "a", "b"]), (_Happened, "ab")]
)
def test_a_record_says_how_many_of_its_kind_are_logged(
    read: Read, event: type[_Happened], lines: Sequence[str]
) -> None:
    for code in "aaab":
        read.log.logger.info(event(code=code))
    assert read.lines() == [f"INFO ours: happened: {code}" for code in lines]
    assert read.log.counted[REPEATED] == 4 - len(lines)


def test_nothing_is_lost_at_the_end(read: Read) -> None:
    for number in range(900):
        read.log.logger.info("line %d", number, extra=EACH)
    assert len(read.lines()) == 900


def test_a_client_can_not_write_lines_of_its_own(read: Read) -> None:
    read.log.logger.error("%s failed", "/x\r\n2026 ERROR evenflow: forged \x1b[2J\x9b")
    (line,) = read.lines()
    assert line == r"ERROR ours: /x\r\n2026 ERROR evenflow: forged \x1b[2J\x9b failed"


def test_a_traceback_has_its_lines_and_an_end(read: Read) -> None:
    def fail(depth: int) -> None:
        if not depth:
            raise ValueError("the reason " + "x" * 50_000)
        fail(depth - 1)

    try:
        fail(3)
    except ValueError:
        read.log.logger.exception("it failed")
    lines = read.lines()
    assert lines[:2] == ["ERROR ours: it failed", "Traceback (most recent call last):"]
    assert len("\n".join(lines)) < 20_000
    assert lines[-1].endswith("xxx")


def test_a_line_that_can_not_be_made_is_told(read: Read) -> None:
    read.log.logger.error("%d of them", "many")
    (line,) = read.lines()
    assert line.startswith("ERROR ours: '%d of them' could not be logged")


def test_a_pipe_that_nobody_reads_stops_nobody() -> None:
    with full_pipe() as pipe:
        log = Log(pipe.writing, most_waiting=3 * len("INFO ours: line 0\n"))
        for number in range(10):
            log.logger.info("line %d", number, extra=EACH)
        dropped = log.counted[UNREAD]
        assert dropped == 7
        assert pipe.lines(10 - dropped) == [
            f"INFO ours: line {number}" for number in range(10 - dropped)
        ]
        log.wait_until_counted()
        log.logger.info("again")
        assert pipe.lines(1) == [
            f"INFO ours: again ({dropped} lines before it were dropped: the log was not read)"
        ]
        log.wait_until_counted()
        log.clock.turn(1.0)
        log.logger.info("again")
        assert pipe.lines(1) == ["INFO ours: again"]


def test_the_end_does_not_wait_for_ever() -> None:
    with full_pipe() as pipe:
        log = Log(pipe.writing, most_waiting=1)
        while not log.writer.full:
            log.logger.info("one", extra=EACH)
        log.writer.close(0.01)


def test_a_descriptor_that_does_not_block_gets_whole_lines() -> None:
    with full_pipe() as pipe:
        os.set_blocking(pipe.writing, False)
        log = Log(pipe.writing)
        log.logger.info("x" * 5_000)
        assert pipe.lines(1) == ["INFO ours: " + "x" * 5_000]


def test_who_is_gone_is_no_reason_to_stop() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    log = Log(writing)
    log.logger.info("to nobody")
    log.handler.close()
    os.close(writing)
