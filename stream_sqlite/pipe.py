"""What goes through the pipe to the process that writes, and back. No I/O.

A frame is a pickled object behind its length. Both ends are this program, and no other
process has the pipe.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

_LENGTH_BYTES = 4
RECEIVED_BYTES = 262_144
"""What is read from the pipe at once."""


def frame(value: object) -> bytes:
    """An object as a frame.

    Raises:
        Exception: it can't be pickled.
    """
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


class Frames:
    """Reads frames out of bytes that come in pieces."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Take what has come. Yields the object of each frame that is whole."""
        received = self._received
        received += data
        while len(received) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "big")
            if len(received) < end:
                return
            value = pickle.loads(received[_LENGTH_BYTES:end])  # noqa: S301 - from ourselves
            del received[:end]
            yield value
