"""`python -m evenflow.stream_sqlite.writer <file> <descriptor>`: the writer process of a handler.

It does the calls that come through the descriptor, a socket, and ends when that is closed.
"""

from __future__ import annotations

import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from evenflow.stream_sqlite.pipe import RECEIVED_BYTES, Frames, frame
from evenflow.stream_sqlite.transactions import StoreCall, Transactions

# The least number of deferrable writes in a batch; with more pending, a quarter of them.
_LEAST_DEFERRABLE = 4

Numbered = tuple[int, StoreCall]
"""A call, and the number by which its outcome is known."""


class WriteOrder:
    """Which of the calls that wait go into the next transaction.

    Those that are not urgent go along with urgent ones, since a transaction of their own would wait
    for the disk once more, and urgent ones behind it.
    """

    def __init__(self) -> None:
        self._urgent: list[Numbered] = []
        self._deferrable: list[Numbered] = []

    def __len__(self) -> int:
        return len(self._urgent) + len(self._deferrable)

    def add(self, number: int, call: StoreCall) -> None:
        """A call waits."""
        (self._urgent if call.urgent else self._deferrable).append((number, call))

    def take(self) -> list[Numbered]:
        """Remove and return the next calls: all urgent ones, then a few deferrable ones."""
        few = max(_LEAST_DEFERRABLE, len(self._deferrable) // 4)
        batch = [*self._urgent, *self._deferrable[:few]]
        self._urgent, self._deferrable = [], self._deferrable[few:]
        return batch


def serve(pipe: socket.socket, run: Callable[[Sequence[StoreCall]], Sequence[object]]) -> None:
    """Answer calls until the pipe is closed and none waits.

    Raises:
        OSError: the handler has closed its end.
    """
    frames, order, is_open = Frames(), WriteOrder(), True
    while is_open or order:
        if is_open:
            is_open = _receive(pipe, frames, order)
        if numbered := order.take():
            outcomes = run([call for _, call in numbered])
            answers = [
                (number, _sendable(outcome))
                for (number, _), outcome in zip(numbered, outcomes, strict=True)
            ]
            pipe.setblocking(True)
            pipe.sendall(frame(answers))


def _receive(pipe: socket.socket, frames: Frames, order: WriteOrder) -> bool:
    """Take all that has come, and wait where nothing waits. Returns whether more may come."""
    with suppress(BlockingIOError):
        while True:
            pipe.setblocking(not order)
            data = pipe.recv(RECEIVED_BYTES)
            if not data:
                return False
            for numbered in frames.feed(data):
                order.add(*numbered)
    return True


def _sendable(outcome: object) -> object:
    """The outcome. In the place of an exception that does not survive pickle: what it says."""
    if isinstance(outcome, Exception):
        try:
            [*Frames().feed(frame(outcome))]
        except Exception:
            return RuntimeError("".join(traceback.format_exception(outcome)))
    return outcome


def main(arguments: Sequence[str]) -> None:
    """Serve one handler."""
    path, descriptor = arguments
    # A signal to the process group must not end the writer: the handler still writes at its end,
    # and then closes the pipe.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with (
        socket.socket(fileno=int(descriptor)) as pipe,
        closing(Transactions(Path(path), writes=True)) as transactions,
        # The handler was killed: its pending calls need no outcome.
        suppress(OSError),
    ):
        serve(pipe, transactions.run)


if __name__ == "__main__":
    main(sys.argv[1:])
