"""Limits the cost of a caller's calls a second, and its streams at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.token_bucket import TokenBucket, TokenBuckets

LONGEST_WAIT_SECONDS = 2.0
"""A call is rejected if it would have to wait longer than this for its caller's earlier calls."""
_BURST_SECONDS = 2.0
# Some 4 MB.
_MOST_CALLERS = 8_192
_ANSWER_BYTES = 16_384
"""Bytes of an answer that cost as much as a call: some tenths of a millisecond of a core."""
_RETRY_AFTER_MS = 1_000


class RateKeys(NamedTuple):
    """The keys of the rates that a call is charged to. Calls of other nodes have no rate.

    Attributes:
        session: a session, a reader of its share or ticket, or a user of an identity provider.
            None: none of them.
        account: a tenant's key; of a session, its tenant and address; or the address of a caller
            without either. None: it isn't counted.
    """

    session: Hashable = None
    account: Hashable = None


def cost_of_answer(size: int) -> float:
    """The cost of an answer of `size` bytes, beside that of its call."""
    return size / _ANSWER_BYTES


class CallRates:
    """Limits calls by their cost: by session, and by key or address.

    A call waits while earlier ones have left a debt, as in nginx' `limit_req`. Its own cost is
    charged when it comes: the largest call passes, and later ones wait for it.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        rates = limits.calls_per_second, limits.calls_per_sender_per_second
        buckets = (TokenBuckets(rate, rate * _BURST_SECONDS, _MOST_CALLERS) for rate in rates)
        self._sessions, self._accounts = buckets
        self._streams: Counter[Hashable] = Counter()

    def charge(self, keys: RateKeys, cost: float, now: float) -> float:
        """Charge a call. Returns the seconds that it has to wait before.

        Args:
            now: seconds of a clock that never goes back.

        Raises:
            RateLimited: it would have to wait too long. It was not charged.
        """
        buckets = self._buckets_of(keys, now)
        wait = max((bucket.empty_for(now) for bucket in buckets), default=0.0)
        if wait > LONGEST_WAIT_SECONDS:
            raise RateLimited(
                "calls come too fast, counted by their cost; nothing was done, call again later",
                code="rate_limited",
                retry_after_ms=math.ceil(wait * 1000),
            )
        for bucket in buckets:
            bucket.spend(now, cost)
        return wait

    def add(self, keys: RateKeys, cost: float, now: float) -> None:
        """Charge a further cost of an admitted call. Later calls wait for it."""
        for bucket in self._buckets_of(keys, now):
            bucket.spend(now, cost)

    @contextmanager
    def streaming(self, keys: RateKeys) -> Iterator[None]:
        """Count a stream or a poll of a session while it is answered.

        Raises:
            RateLimited: the session has as many as allowed.
        """
        session, streams = keys.session, self._streams
        if session is None:
            yield
            return
        if streams[session] >= self._limits.streams_per_session:
            raise RateLimited(
                f"this token has {self._limits.streams_per_session} event streams and polls open, "
                "as many as it may have; nothing was changed, close one",
                code="session_streams",
                retry_after_ms=_RETRY_AFTER_MS,
            )
        streams[session] += 1
        try:
            yield
        finally:
            streams[session] -= 1
            if not streams[session]:
                del streams[session]

    def _buckets_of(self, keys: RateKeys, now: float) -> list[TokenBucket]:
        named = ((self._sessions, keys.session), (self._accounts, keys.account))
        return [buckets.use(name, now) for buckets, name in named if name is not None]
