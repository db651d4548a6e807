"""Learns an upstream's concurrency limit from late first tokens and from rejections."""

from __future__ import annotations

from math import ceil, inf

from evenflow.stream_core.upstream.calls_on_other_nodes import CallsOnOtherNodes, NodeShare
from evenflow.stream_core.upstream.first_token_latency import FirstToken, FirstTokenLatency
from evenflow.stream_core.upstream.rejection_estimator import RejectionEstimator

# Late first tokens, less those in time between them, that make a limit known or lower it.
_LATE_FOR_A_LIMIT = 4
# Additive increase: first tokens in time at the limit, for one call more.
_IN_TIME_FOR_ONE_MORE = 4
# Multiplicative decrease. A limit that doesn't help is forgotten with the sixth decrease in a row.
_DECREASE, _DECREASES_IN_VAIN = 0.9, 6
# The initial limit of a node, before first tokens have shown that there is room for more.
_INITIAL_LIMIT = 8
# Calls more with each first token in slow start after an outage, so that they double each round.
_SLOW_START_STEP = 2
# Consecutive rejections, with no call running, that are an outage: one call at a time is tried.
_REJECTIONS_OF_AN_OUTAGE = 3
# While no limit is known: the calls of all nodes may grow to this multiple.
_GROWTH_OF_ALL_NODES = 1.25
# A limit is forgotten after this time without a late first token or a rejection.
_FORGOTTEN_SECONDS = 300.0
# Until other nodes have reported the answers that they had when a limit was found.
_REPORTED_SECONDS = 3.0
# The part of the limit that is reserved for the least served tenant: 1/5, or 1/10 of a limit by
# rejections.
_RESERVED_PART, _RESERVED_PART_AT_REJECTIONS = 5, 10


class AIMDLimit:
    """The concurrency limit of an upstream: additive increase, multiplicative decrease.

    **Late first tokens.** An inference engine generates a fixed number of answers at once (vLLM's
    `--max-num-seqs`) and queues the others in silence: a first token then comes only when another
    answer ends. The limit is the number of calls that were lately answered at once, after four late
    first tokens of calls that started beside as many. A first token in time makes up for a late
    one.

    **Rejections** (429) show the limit, too (`RejectionEstimator`). A tenth of such a limit, over
    all nodes, is reserved for the least served tenant. That is less than the fifth for an engine,
    since fewer calls make no answer sooner here. A tenant below its share may start a call even if
    this node's share is used up. Reports of other nodes are a second old, so that holds while all
    calls together seem to exceed the limit by less than that tenth.

    **Increase.** Four first tokens in time at the limit raise it by one; of a limit by rejections,
    as many as the limit. A limit found before other nodes have reported grows at once to the
    answers that all of them had at the same time.

    **Decrease.** While first tokens stay late the limit falls by a tenth at a time. After six times
    the upstream is slower than it was: the limit and the usual latency are forgotten. A limit is
    forgotten, too, five minutes after it was last found or lowered.

    **Slow start.** Without a limit a node starts eight calls, and one more with each first token in
    time while half of the allowed calls run. So an upstream whose limit is unknown gets no long
    backlog. (A single tenant's answers are bounded only in the batch class: see `Admission`.) After
    an outage, in which every call was rejected, one call at a time is tried. Then the calls double
    each round up to the last good limit (TCP's slow start threshold), and grow by one from there.

    **Several nodes** report their limits and calls, and each uses its share. A node above its share
    starts one call for two that end. While no limit is known they divide a quarter more calls than
    all of them make, up to eight more. Otherwise a node that grew first would give a tenant more
    than the others can.
    """

    __slots__ = (
        *("_estimator", "_first_tokens", "_in_time", "_last_good", "_late", "_learned_at"),
        *("_share", "_shrinks_to", "_slow_start_threshold", "_unknown_limit", "_vain_decreases"),
        *("limit", "on_other_nodes"),
    )

    def __init__(self) -> None:
        self.limit: int | None = None
        """The most calls at once, of all nodes, as this one has learned. None: not learned."""
        self.on_other_nodes = CallsOnOtherNodes()
        # (limit, share): the result of the last `_divide` call.
        self._share: tuple[int, NodeShare] | None = None
        self._unknown_limit = _INITIAL_LIMIT  # of this node, while no limit is known
        self._last_good = self._slow_start_threshold = 0
        self._first_tokens = FirstTokenLatency()
        self._learned_at = 0.0
        self._late = self._in_time = self._vain_decreases = 0
        # While more calls run than may: one more may start while at most this number run.
        self._shrinks_to = inf
        # None: the limit was not learned from rejections.
        self._estimator: RejectionEstimator | None = None

    @property
    def share(self) -> int | None:
        """The most calls of this node at once. None: no limit is known."""
        return None if self._known is None else self._divide(self._known).calls

    @property
    def published(self) -> int | None:
        """The limit that is reported to other nodes."""
        return None if self._estimator is not None and self._estimator.kept else self.limit

    @property
    def _known(self) -> int | None:
        return self.on_other_nodes.limit if self.limit is None else self.limit

    def most_calls_of(self, tenant: str) -> int | None:
        """The most calls of a tenant here while another one waits: this node's share, plus one.

        None: no limit, not a limit by rejections, or the tenant is not reported.
        """
        if self._known is None or self._estimator is None:
            return None
        share = self._divide(self._known).of_tenants.get(tenant)
        return None if share is None else ceil(share) + 1

    def learn(self, on_other_nodes: CallsOnOtherNodes, now: float) -> None:
        """Learn from the reports of other nodes.

        Their limit is adopted when they stop calling the upstream and reporting it.
        """
        known = self.on_other_nodes.limit
        if self.limit is None and known is not None and not on_other_nodes.wanted_by_node:
            self.limit, self._learned_at = known, now
        self.on_other_nodes, self._share = on_other_nodes, None
        if self._estimator is not None:
            self._estimator.record_reports(on_other_nodes.running, on_other_nodes.limits)
            self.limit = self._estimator.limit
        self._first_tokens.record_reports(on_other_nodes)

    def may_start(self, running: int, answered: int = 0, tenant: str | None = None) -> bool:
        """Whether this node may start one more call. One that has too many may once two have ended
        since its last start.

        Args:
            running: this node's calls that have not ended.
            answered: those of them that have a token.
            tenant: of the call. None: any.
        """
        if tenant is not None and self._may_exceed_share(tenant, running):
            return True
        most = self._most(running, answered)
        return running < most or most < running <= self._shrinks_to

    def record_start(self, running: int, answered: int = 0) -> None:
        """Record that a call starts. The arguments are those of `may_start`."""
        # While there are too many, one starts for two that end, so that their number falls.
        self._shrinks_to = running - 1 if running > self._most(running, answered) else inf

    def only_reserved(self, running: int, answered: int = 0) -> bool:
        """Whether what is left of the limit is reserved for the least served tenant."""
        most = self._most(running, answered)
        if self._estimator is None or self._known is None:
            return running >= most - most // _RESERVED_PART
        return running >= most - self.on_other_nodes.equal_part(_reserved(self._known))

    def record_silence(self, seconds: float) -> None:
        """Record that calls run, and none of them has had a token for some seconds.

        An engine that queues answers some calls while others wait. If none is answered, the model
        is slow to begin. So the unknown limit doubles each second.
        """
        self._unknown_limit = max(self._unknown_limit, _INITIAL_LIMIT << min(int(seconds), 16))

    def record_first_token(self, token: FirstToken, answered: int, now: float) -> None:
        """Learn from a first token.

        Args:
            answered: calls of this node that run and have a token, with this one.
            now: in seconds.
        """
        latency, since = self._first_tokens, now - self._learned_at
        all_answered = answered + self.on_other_nodes.answered
        token, late = latency.judge(token, all_answered, self.on_other_nodes)
        if since >= _FORGOTTEN_SECONDS:
            self._forget()
        elif since < _REPORTED_SECONDS and self._is_by_late_tokens and not self._vain_decreases:
            self.limit = max(self.limit or 0, ceil(latency.peak))
        began_at = now - token.seconds
        if self.limit is not None and self.limit < self._slow_start_threshold:
            if began_at >= self._learned_at:
                self._grow(min(self.limit + _SLOW_START_STEP, self._slow_start_threshold))
            return
        self._slow_start_threshold = 0
        if token.concurrent + 1 < latency.peak or began_at < self._learned_at:
            return  # such a call shows nothing: it ran beside fewer, or is older than the limit
        if late is False:
            self._record_in_time(token)
        elif late and self._waited_for_a_slot(token):
            self._record_late(now)

    def _waited_for_a_slot(self, token: FirstToken) -> bool:
        """Whether a late call started within the limit. A call beyond the limit has to wait."""
        if self._known is None:
            return token.concurrent >= self._first_tokens.peak
        return token.concurrent < self._known

    def record_rejection(self, here: int, began_at: float, now: float, in_a_row: int = 1) -> None:
        """Learn from a rejected call (429).

        Args:
            here: other calls of this node that run.
            began_at: when the call started.
            now: in seconds.
            in_a_row: consecutive rejections, with this one.
        """
        before = self._known or self._unknown_limit
        if self._estimator is None:
            self._estimator = RejectionEstimator(self._known)
        if self.on_other_nodes.unreported_nodes and self._estimator.is_settled:
            return  # other nodes have not reported yet
        alone = not (self.on_other_nodes.unreported_nodes or self.on_other_nodes.wanted_by_node)
        on_other_nodes = None if alone else self.on_other_nodes.running
        self._estimator.record_rejection(here, on_other_nodes, began_at, now)
        is_outage = not (here or self.on_other_nodes.answered)
        if in_a_row == 1:
            self._last_good = before if is_outage else self._estimator.limit
        if is_outage and in_a_row >= _REJECTIONS_OF_AN_OUTAGE:
            self._estimator.estimate = 1.0
        self._slow_start_threshold = self._last_good if is_outage else 0
        self.limit = self._estimator.limit
        self._learned_at, self._late, self._in_time = now, 0, 0

    @property
    def _is_by_late_tokens(self) -> bool:
        return self.limit is not None and self._estimator is None

    def _divide(self, limit: int) -> NodeShare:
        if self._share is None or self._share[0] != limit:
            self._share = limit, self.on_other_nodes.divide(limit)
        return self._share[1]

    def _may_exceed_share(self, tenant: str, running: int) -> bool:
        """Whether a tenant with little demand may have a call beyond this node's share."""
        limit = self._known
        if limit is None or self._estimator is None or not self.on_other_nodes.wanted_by_node:
            return False
        if running + self.on_other_nodes.running >= limit + _reserved(limit):
            return False
        return tenant not in self._divide(limit).heavy

    def _most(self, running: int, answered: int) -> int:
        """The most calls of this node at once, whether a limit is known or not."""
        if self._known is not None:
            share = self._divide(self._known).calls
            return share if self._estimator is None else max(share, self._estimator.kept)
        # Calls that were taken over from another node may be more.
        most = max(self._unknown_limit, answered + _INITIAL_LIMIT)
        if not self.on_other_nodes.wanted_by_node:
            return most
        together = (running + self.on_other_nodes.running) * _GROWTH_OF_ALL_NODES
        # In eights, since each new number is divided again.
        eights = _INITIAL_LIMIT * (int(together / _INITIAL_LIMIT) + 1)
        return min(most, max(_INITIAL_LIMIT, self._divide(eights).calls))

    def _record_late(self, now: float) -> None:
        self._late, self._in_time = self._late + 1, 0
        if self._late < _LATE_FOR_A_LIMIT:
            return
        self._late, self._learned_at = 0, now
        self._vain_decreases += self.limit is not None
        if self._vain_decreases >= _DECREASES_IN_VAIN:
            self._forget()
            self._first_tokens.forget()
            return
        self._estimator, self._slow_start_threshold = None, 0
        lowered = self._first_tokens.peak if self.limit is None else int(self.limit * _DECREASE)
        self.limit = max(1, ceil(lowered))

    def _forget(self) -> None:
        limit = self.limit or 0
        if self._estimator is None:
            self._unknown_limit = max(self._unknown_limit, 2 * limit)
        else:
            self._unknown_limit = limit + _INITIAL_LIMIT  # calls that are too many are rejected
        self.limit, self._estimator = None, None
        self._vain_decreases = self._slow_start_threshold = 0

    def _record_in_time(self, token: FirstToken) -> None:
        self._late, self._vain_decreases = max(0, self._late - 1), 0
        if self.limit is None:
            self._unknown_limit += token.here + 1 >= self._unknown_limit / 2
        elif token.concurrent + 1 >= self.limit:
            self._in_time += 1
            if self._in_time >= self._enough_in_time(self.limit):
                self._grow(self.limit + 1)

    def _enough_in_time(self, limit: int) -> float:
        """First tokens in time at the limit, for one call more."""
        if self._estimator is None:
            return _IN_TIME_FOR_ONE_MORE
        return limit / max(1, len(self.on_other_nodes.wanted_by_node))

    def _grow(self, limit: int) -> None:
        self._in_time = 0
        self.limit = limit
        if self._estimator is not None:
            self._estimator.grow_to(limit)


def _reserved(limit: int) -> int:
    return max(1, limit // _RESERVED_PART_AT_REJECTIONS)
