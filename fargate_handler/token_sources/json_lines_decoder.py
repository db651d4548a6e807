"""JSON lines out of a byte stream that may be split anywhere."""

from __future__ import annotations

from stream_core.errors import UpstreamFailed

_MOST_BYTES = 1_048_576


class JsonLinesDecoder:
    """Collects bytes until a line is whole. Empty lines say nothing."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes.

        Raises:
            UpstreamFailed: a line grows beyond 1 MiB.
        """
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _MOST_BYTES:
            raise UpstreamFailed(
                "the model's server sent a line without end; it was hung up on", code="upstream_failed"
            )
        return [line for line in lines if line.strip()]
