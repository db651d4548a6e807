"""What is noted of an answer while it is given, for its line in the log."""

from __future__ import annotations

from stream_core.records.token_gaps import GapSummary

_MOST_CHANGES = 8


class AnswerFigures:
    """Counts of one copy of an answer. The one of the task that ends it makes the line.

    Attributes:
        model: the model's name at its server. Empty: not known.
        trace: the id of the trace that it is part of. Empty: of none.
        began_at: when its generation began at this task, in seconds on the monotonic clock.
        gaps: the time between its tokens, when it has ended. None: there were too few.
        retries: attempts of this task that followed a failed one.
        delivered: the furthest `next_index` of a reader that has left.
        read_over: protocol and transport of its readers, in order, where they changed.
        transport_changes: how often a reader came over another transport than the one before.
    """

    __slots__ = (
        "began_at",
        "delivered",
        "gaps",
        "model",
        "read_over",
        "retries",
        "trace",
        "transport_changes",
    )

    def __init__(self) -> None:
        self.model = ""
        self.trace = ""
        self.began_at: float | None = None
        self.gaps: GapSummary | None = None
        self.retries = 0
        self.delivered = 0
        self.read_over: tuple[tuple[str, str], ...] = ()
        self.transport_changes = 0

    def note_reader(self, protocol: str, transport: str) -> str | None:
        """Note a reader. Returns the transport of the one before if that is another one."""
        before = self.read_over[-1] if self.read_over else None
        if before != (protocol, transport):
            self.read_over = (*self.read_over, (protocol, transport))[-_MOST_CHANGES:]
        if before is None or before[1] == transport:
            return None
        self.transport_changes += 1
        return before[1]
