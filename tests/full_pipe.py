"""A pipe that nobody reads, and that takes nothing more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_FILLING = b"#" * 4_096


class FullPipe:
    """A full pipe.

    Args:
        reading, writing: the descriptors of its ends.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing
        self._rest = b""
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, _FILLING)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"#")
        os.set_blocking(writing, True)

    def lines(self, count: int) -> list[str]:
        """Read so many lines, without what the pipe was full of."""
        while self._rest.count(b"\n") < count:
            part = os.read(self.reading, 65_536)
            assert part, self._rest
            self._rest += part.replace(b"#", b"")
        *lines, self._rest = self._rest.split(b"\n", count)
        return [line.decode() for line in lines]


@contextmanager
def full_pipe() -> Iterator[FullPipe]:
    """Open one."""
    reading, writing = os.pipe()
    try:
        yield FullPipe(reading, writing)
    finally:
        # What still waits to write gets an error, and ends.
        os.close(reading)
        os.close(writing)
