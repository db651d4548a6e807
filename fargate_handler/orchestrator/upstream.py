"""A model at its server, as this node knows it. Its circuit breaker receives each outcome."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from evenflow.fargate_handler.orchestrator.model_context import StatedContext
from evenflow.fargate_handler.token_sources.port import ModelFinish, TokenSource
from evenflow.stream_core.base.errors import (
    EvenflowError,
    InternalError,
    Overloaded,
    UpstreamUnreadable,
    is_upstreams_fault,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.upstream.circuit_breaker import CircuitBreaker, UpstreamCall
from evenflow.stream_core.upstream.concurrency_limiter import ConcurrencyLimiter

_logger = logging.getLogger("evenflow.model")


@dataclass(frozen=True, slots=True)
class Upstream:
    """The state that all answers of one model share.

    Args:
        name: the name of the model at its server.
        breaker: rejects calls of senders whose calls keep failing.
        limiter: decides whether one more call may start.
        context: the longest request, as its server has stated it.
    """

    name: str
    source: TokenSource
    breaker: CircuitBreaker
    limiter: ConcurrencyLimiter
    context: StatedContext = field(default_factory=StatedContext, compare=False)


@dataclass(slots=True)
class Upstreams:
    """The models with calls so far."""

    source: TokenSource
    limits: Limits
    by_name: dict[str, Upstream] = field(default_factory=dict)
    """By their names at their server."""
    _failing: set[str] = field(default_factory=set)

    @property
    def breakers_open(self) -> int:
        """The number of models that reject calls, with no successful call since."""
        return sum(it.breaker.is_failing for it in self.by_name.values())

    def forget_learned(self, name: str) -> bool:
        """Forget what was learned of a model. Returns whether it had calls."""
        upstream = self.by_name.get(name)
        if upstream is None:
            return False
        upstream.breaker.close_all()
        upstream.limiter.forget_limit()
        return True

    def log_changes(self) -> None:
        """Log which models reject calls since the last look, and which answer again."""
        failing = {name for name, it in self.by_name.items() if it.breaker.is_failing}
        for name in failing - self._failing:
            _logger.warning(
                "model %r has failed many times in a row: its messages are refused, and it is "
                "tried again each %g s", name, self.limits.breaker_open_seconds,
            )  # fmt: skip
        for name in self._failing - failing:
            _logger.warning("model %r answers again", name)
        self._failing = failing

    @property
    def lowest_share(self) -> int:
        """The lowest share that this node has of a model's limit. 0 where no limit is known."""
        shares = (it.limiter.limit.share for it in self.by_name.values())
        return min((share for share in shares if share is not None), default=0)

    def of(self, name: str) -> Upstream:
        """The upstream of a model."""
        upstream = self.by_name.get(name)
        if upstream is None:
            limits = self.limits
            upstream = self.by_name[name] = Upstream(
                name,
                self.source,
                CircuitBreaker(limits.breaker_failures, limits.breaker_open_seconds),
                ConcurrencyLimiter(limits.prefill_delay_ms / 1000),
            )
        return upstream


def report_outcome(
    call: UpstreamCall, outcome: ModelFinish | EvenflowError, now: float, *, gave_tokens: bool
) -> None:
    """Report the outcome of an attempt to the upstream's circuit breaker.

    A broken-off answer counts neither way: a restarting server breaks off all of them. Their next
    attempts decide. An unreadable answer counts neither way: its message may be the cause.
    """
    failed = isinstance(outcome, EvenflowError) and is_upstreams_fault(outcome)
    unclear = gave_tokens or isinstance(outcome, UpstreamUnreadable)
    if isinstance(outcome, InternalError) or (failed and unclear):
        call.record_withdrawal(now)
    elif failed:
        call.record_failure(now)
    else:
        call.record_success()


def upstream_unavailable(seconds: float, kept: str) -> Overloaded:
    """The error while the circuit breaker is open.

    Args:
        seconds: until it lets a call through.
        kept: what became of the message.
    """
    return Overloaded(
        f"the model's server has failed many times in a row and is not asked for now; {kept}",
        code="upstream_unavailable",
        retry_after_ms=max(1, round(seconds * 1000)),
    )
