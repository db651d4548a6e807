"""Writes in a process of their own. The event loop never waits for the disk, and the writes never
wait for Python's lock, which a busy event loop keeps for milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from subprocess import DEVNULL, Popen
from typing import Any

from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_sqlite.outcomes import Outcomes
from evenflow.stream_sqlite.pipe import RECEIVED_BYTES, Frames, frame
from evenflow.stream_sqlite.transactions import A, JoinedOperation, Operation, StoreCall, T, single

_logger = logging.getLogger(__name__)

_PACKAGES = Path(__file__).resolve().parents[1]


class Writes:
    """The process that writes. It is started with the first call, and again when it has ended.

    Operations, arguments and results go through a pipe, so they must be ones that pickle takes:
    functions of modules, and partials of such.

    All calls must come from one event loop.

    Args:
        path: the file, after `prepare`.
        kept_open: descriptors that the process keeps open as long as it runs.
    """

    def __init__(self, path: Path, kept_open: Sequence[int] = ()) -> None:
        self._path = path
        self._kept_open = kept_open
        self._outcomes = Outcomes(path)
        self._closed: str | None = None
        self._writer: _Writer | None = None

    async def run(
        self, operation: Operation[T], *, durable: bool = False, urgent: bool = False
    ) -> T:
        """Run an operation. Returns its result once the transaction is committed.

        Args:
            durable: whether the result must survive a power cut. All results survive the process.
            urgent: whether it comes before other writes that wait. A few of those go along.

        Raises:
            StoreUnavailable: the file could not be read or written.
            Exception: whatever the operation raised.
        """
        return await self.run_together(single(operation), None, durable=durable, urgent=urgent)

    async def run_together(
        self,
        operation: JoinedOperation[A, T],
        argument: A,
        *,
        durable: bool = False,
        urgent: bool = False,
    ) -> T:
        """Run an operation once for all calls of it that share a transaction.

        Args:
            argument: of this call.
            durable: whether the result must survive a power cut. All results survive the process.
            urgent: whether it comes before other writes that wait. A few of those go along.

        Returns:
            The result of this call, once the transaction is committed.

        Raises:
            StoreUnavailable: the file could not be read or written.
            Exception: whatever the operation raised, or returned for this call.
        """
        if self._closed is not None:
            raise StoreUnavailable(self._closed)
        if self._writer is None or self._writer.has_ended:
            self._writer = self._start()
        return await self._writer.ask(StoreCall(operation, argument, durable, urgent))  # type: ignore[no-any-return]

    def close(self, why: str | None = None) -> None:
        """Finish the operations that wait, and end the process.

        Args:
            why: the error of later calls.
        """
        self._closed = why or f"{self._path} is closed"
        if self._writer is not None and not self._writer.has_ended:
            self._writer.close()

    def open(self, kept_open: Sequence[int]) -> None:
        """Accept calls again after `close`."""
        self._kept_open, self._closed = kept_open, None

    def _start(self) -> _Writer:
        try:
            return _Writer(self._path, self._kept_open, self._outcomes)
        except OSError as error:
            raise StoreUnavailable(
                f"{self._path}: the process that writes it can't be started: {error}"
            ) from error


class _Writer:
    """One process, and the calls that it has not answered."""

    def __init__(self, path: Path, kept_open: Sequence[int], outcomes: Outcomes) -> None:
        self._path = path
        self._outcomes = outcomes
        self._loop = asyncio.get_running_loop()
        self._numbers = count()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._unsent = bytearray()
        self._frames = Frames()
        self._pipe, others_end = socket.socketpair()
        with others_end:
            try:
                self._process = _started(path, others_end.fileno(), kept_open)
            except BaseException:
                self._pipe.close()
                raise
        self._pipe.setblocking(False)
        self._loop.add_reader(self._pipe.fileno(), self._receive)
        self.has_ended = False

    async def ask(self, call: StoreCall) -> Any:
        """The result of a call."""
        number = next(self._numbers)
        if not self._unsent:
            # All calls of this turn of the loop go together.
            self._loop.call_soon(self._send)
        self._unsent += frame((number, call))
        answer = self._answers[number] = self._loop.create_future()
        return await answer

    def close(self) -> None:
        """Have all that was asked written, and wait until the process has ended."""
        self._watch_no_more()
        # It may send large results while large calls are sent to it.
        with self._pipe, DefaultSelector() as selector, suppress(OSError):
            selector.register(self._pipe, EVENT_READ | EVENT_WRITE)
            is_open = True
            while is_open:
                ((_, events),) = selector.select()
                if events & EVENT_READ:
                    data = self._pipe.recv(RECEIVED_BYTES)
                    is_open = bool(data)
                    self._hand_out(data)
                elif self._unsent:
                    self._send_some()
                else:
                    self._pipe.shutdown(socket.SHUT_WR)
                    selector.modify(self._pipe, EVENT_READ)
        self._process.wait()

    def _send_some(self) -> None:
        with suppress(BlockingIOError):
            del self._unsent[: self._pipe.send(self._unsent)]

    def _send(self) -> None:
        if self.has_ended:
            return
        try:
            self._send_some()
        except OSError:
            self._lost()
            return
        if self._unsent:
            self._loop.add_writer(self._pipe.fileno(), self._send)
        else:
            self._loop.remove_writer(self._pipe.fileno())

    def _receive(self) -> None:
        try:
            data = self._pipe.recv(RECEIVED_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            self._hand_out(data)
        except Exception:
            _logger.exception("%s: what the process that writes it says can't be read", self._path)
            data = b""
        if not data:
            self._lost()

    def _hand_out(self, data: bytes) -> None:
        for outcomes in self._frames.feed(data):
            for number, outcome in outcomes:
                answer = self._answers.pop(number)
                if not self._loop.is_closed():
                    self._outcomes.hand_out(answer, outcome)

    def _lost(self) -> None:
        """The process has ended, though it was not told to."""
        self._watch_no_more()
        self._pipe.close()
        self._process.kill()
        what = (
            f"{self._path}: the process that writes it has ended (exit code "
            f"{self._process.wait()}); what it had committed is kept, and the next call starts "
            "another one"
        )
        _logger.error(what)
        for answer in self._answers.values():
            self._outcomes.hand_out(answer, StoreUnavailable(what))
        self._answers.clear()

    def _watch_no_more(self) -> None:
        self.has_ended = True
        if not self._loop.is_closed():
            self._loop.remove_reader(self._pipe.fileno())
            self._loop.remove_writer(self._pipe.fileno())


def _started(path: Path, descriptor: int, kept_open: Sequence[int]) -> Popen[bytes]:
    searched = os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH"))))
    return Popen(  # noqa: S603 - our own program
        [sys.executable, "-P", "-m", "evenflow.stream_sqlite.writer", str(path), str(descriptor)],
        stdin=DEVNULL,
        pass_fds=(descriptor, *kept_open),
        env={**os.environ, "PYTHONPATH": searched},
    )
