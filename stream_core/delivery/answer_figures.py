"""Measurements of an answer while it is generated: figures, token gaps, and an observer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple, Protocol

from evenflow.stream_core.delivery.reader import Reader

STALL_SECONDS = 1.0
"""A longer silence within an answer is a stall."""

GAP_BOUNDS = [0.001 * 2 ** (step / 4) for step in range(64)]
"""Seconds: from 1 ms to 55 s, each 19 % above the one before."""


class GapSummary(NamedTuple):
    """The time between tokens, in seconds. `p50` and `p95` are at most 19 % too long."""

    p50: float
    p95: float
    longest: float
    stalls: int


class TokenGaps:
    """Counts the seconds between tokens, in a few logarithmic buckets.

    Tokens of one delivery count as evenly spread since the delivery before. So only a delivery
    costs time, not a token.

    Args:
        tokens: the number of tokens at the first delivery.

    Attributes:
        tokens: the number of tokens at the last delivery.
        counts: the tokens after a gap of each of `GAP_BOUNDS`, and of a longer one.
    """

    __slots__ = ("_longest", "_notable", "_stalls", "counts", "tokens")

    def __init__(self, tokens: int) -> None:
        self.counts = [0] * (len(GAP_BOUNDS) + 1)
        self.tokens = tokens
        self._notable = 0.0  # a longer gap is the longest so far, or a stall
        self._longest = 0.0
        self._stalls = 0

    def record_delivery(self, gap: float, tokens: int) -> None:
        """Count a delivery.

        Args:
            gap: seconds since the delivery before.
            tokens: the number of tokens by now.
        """
        new, self.tokens = tokens - self.tokens, tokens
        self.counts[bisect_left(GAP_BOUNDS, gap / (new or 1))] += new
        if gap > self._notable:
            self._record_silence(gap)

    def skip_delivery(self, tokens: int) -> None:
        """Leave out a gap in which the model was paused: it says nothing about the model."""
        self.tokens = tokens

    def _record_silence(self, gap: float) -> None:
        self._longest = max(self._longest, gap)
        self._stalls += gap > STALL_SECONDS
        self._notable = min(self._longest, STALL_SECONDS)

    def counted(self) -> Iterator[tuple[float, int]]:
        """Each gap in seconds, at most 19 % too long, and the number of tokens after it."""
        for seconds, count in zip((*GAP_BOUNDS, self._longest), self.counts, strict=True):
            if count:
                yield seconds, count

    def summary(self) -> GapSummary | None:
        """The percentiles, the longest gap and the stalls. None where nothing was counted."""
        seen = list(accumulate(self.counts))
        if not seen[-1]:
            return None
        bounds, longest = (*GAP_BOUNDS, self._longest), self._longest
        p50, p95 = (
            min(longest, bounds[bisect_left(seen, seen[-1] * share)]) for share in (0.5, 0.95)
        )
        return GapSummary(p50, p95, longest, self._stalls)


class AnswerFigures:
    """Counts of one copy of an answer, for its line in the log and its usage record.

    Attributes:
        model: the model's name at its server. Empty: not known.
        user, key: the user of its message, and the id of the tenant's key. Empty: none.
        input_estimate: the estimated tokens of the model's input.
        media_tokens: the most tokens that the media of one call of the model can be.
        longest: the requested limit of output tokens of one call. None: it had none.
        calls: calls of the model. Each but the first sends the results of tools.
        cache_written: input tokens that the server wrote to its cache, by the server's count.
        trace: the id of its trace. Empty: it has none.
        began_at: when its generation began on this node, in seconds on the monotonic clock.
        gaps: the time between its tokens, when it has ended. None: there were too few.
        retries: attempts of this node after a failed one.
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

    def record_reader(self, protocol: str, transport: str) -> str | None:
        """Record a reader. Returns the transport of the one before if that is another one."""
        before, self._last_transport = self._last_transport, transport
        if self.first_reader is None:
            self.first_reader = protocol, transport
        if before is None or before == transport:
            return None
        self.transport_changes += 1
        return before


class AnswerObserver(Protocol):
    """Observes one response on the node that owns it, for example as a trace.

    Nothing is called for a token. Times are read from the response. No method may wait or raise.
    """

    @property
    def traceparent(self) -> str:
        """The trace that is sent to the model, as W3C Trace Context has it."""

    def started(self) -> None:
        """The response has left the queue: the model is called."""

    def first_token(self) -> None:
        """The first token of this node's model call has come."""

    def generated(self) -> None:
        """The response has ended, or another node owns it. The model call is closed."""

    def attached(self, reader: Reader) -> None:
        """A reader was attached."""

    def detached(self, reader: Reader) -> None:
        """A reader was detached."""

    def recorded(self, since: float) -> None:
        """Nothing more of it is written to the store.

        Args:
            since: when the first write was due, in seconds on the monotonic clock.
        """
