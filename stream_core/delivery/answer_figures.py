"""What is noted of an answer while it is given, for its line in the log."""

from __future__ import annotations

from evenflow.stream_core.delivery.token_gaps import GapSummary


class AnswerFigures:
    """Counts of one copy of an answer. The one of the task that ends it makes the line.

    Attributes:
        model: the model's name at its server. Empty: not known.
        user, key: whom it is for, and the id of the key that its message came with. Empty: none.
        input_estimate: about how many tokens its model is given.
        media_tokens: the most tokens that the media of one call of the model can be.
        longest: the most tokens of output that one call was to give. None: it had no length.
        calls: calls of the model, each of which follows the results of the one before.
        cache_written: how many of these its server wrote to its cache, by the server's count.
        trace: the id of the trace that it is part of. Empty: of none.
        began_at: when its generation began at this task, in seconds on the monotonic clock.
        gaps: the time between its tokens, when it has ended. None: there were too few.
        retries: attempts of this task that followed a failed one.
        delivered: the furthest `next_index` of a reader that has left.
        first_reader: the protocol and the transport of its first reader. None: it had none.
        transport_changes: how often a reader came over another transport than the one before.
    """

    __slots__ = (
        "_last_transport",
        "began_at",
        "cache_written",
        "calls",
        "delivered",
        "first_reader",
        "gaps",
        "input_estimate",
        "key",
        "longest",
        "media_tokens",
        "model",
        "retries",
        "trace",
        "transport_changes",
        "user",
    )

    def __init__(self) -> None:
        self.model = ""
        self.trace = self.user = self.key = ""
        self.input_estimate = self.media_tokens = self.cache_written = 0
        self.longest: int | None = None
        self.calls = 1
        self.began_at: float | None = None
        self.gaps: GapSummary | None = None
        self.retries = 0
        self.delivered = 0
        self.first_reader: tuple[str, str] | None = None
        self._last_transport: str | None = None
        self.transport_changes = 0

    def note_reader(self, protocol: str, transport: str) -> str | None:
        """Note a reader. Returns the transport of the one before if that is another one."""
        before, self._last_transport = self._last_transport, transport
        if self.first_reader is None:
            self.first_reader = protocol, transport
        if before is None or before == transport:
            return None
        self.transport_changes += 1
        return before
