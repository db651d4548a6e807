"""When a failed call of the model is made again, and how long to wait before."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from evenflow.fargate_handler.filters.filtering_sink import FilterFailed
from evenflow.fargate_handler.orchestrator.answer_calls import AnswerCalls
from evenflow.fargate_handler.orchestrator.upstream import Upstream
from evenflow.fargate_handler.token_sources.port import ModelFinish
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.base.channel import MessageKind
from evenflow.stream_core.base.errors import (
    EvenflowError,
    ModelRefused,
    UpstreamAnswered,
    UpstreamRejected,
    is_over_quota,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.upstream.circuit_breaker import SenderKey

_RETRY_PAUSE_SECONDS = (0.05, 0.25)
# After a longer throttle there is no retry, and the reader is told when to ask again.
_LONGEST_RETRY_PAUSE_SECONDS = 20.0
# Calls for one question to a server that throttles. There may be more if the server names no time
# and answers others: then a slot is free soon, and others may take it first.
_MOST_THROTTLED_CALLS = 5
_MOST_CALLS_FOR_A_SLOT = 12
# Milliseconds. A program waits for a shorter throttle here, while the server answers other calls.
_SHORT_THROTTLE_MS = 1_000
# A server that rejects all calls is given up after this many calls and seconds, if it names a time
# and rejects the call that begins then. In any case it is given up after the longest time.
_REJECTED_CALLS, _REJECTED_SECONDS, _LONGEST_REJECTED_SECONDS = 3, 3.0, 10.0
_LATE_AT_MOST = 1.2


class RetryPolicy:
    """Decides whether the calls for one response are made again.

    Args:
        calls: the calls so far.
        sender: of the question, as the circuit breaker knows it.
        may_call_again: whether the model may be called again for an answer that broke off.
    """

    def __init__(
        self,
        stream: ResponseStream,
        kind: MessageKind,
        calls: AnswerCalls,
        upstream: Upstream,
        *,
        sender: SenderKey,
        limits: Limits,
        may_call_again: bool,
        monotonic: Callable[[], float],
    ) -> None:
        self._stream = stream
        self._kind = kind
        self._calls = calls
        self._upstream = upstream
        self._sender = sender
        self._limits = limits
        self._may_call_again = may_call_again
        self._monotonic = monotonic
        self._last_attempt = stream.attempt + limits.model_retries
        self.throttled: EvenflowError | None = None
        """The server's last throttle, while the response waits for quota. None: it does not."""
        self.throttled_since: float | None = None
        """The time of the first throttle without a token since, in seconds."""
        self._throttled_calls = 0
        self._calls_of_rejecting_server = 0

    def begin_step(self) -> None:
        """Begin another request of the same answer: it has all its attempts."""
        self._last_attempt = self._stream.attempt + self._limits.model_retries

    def grant_attempt(self) -> None:
        """Allow one more attempt: the model has begun nothing in the last one."""
        self._last_attempt += 1

    def should_retry(self, error: EvenflowError) -> bool:
        """Whether to call the model again after a failure, once `pause_before_retry` is over."""
        if (
            isinstance(error, ModelRefused | UpstreamRejected | FilterFailed)
            or self._stream.attempt >= self._last_attempt
            # An agent must not do its work twice.
            or (self._calls.gave_tokens and not self._may_call_again)
            or self.throttled is not None  # its longest wait for quota is over
            or self._upstream.breaker.open_for(self._sender, self._monotonic()) > 0
        ):
            return False
        # With an idempotency key, the client's retry gives the same error.
        client_retries = self._kind.client_retries or (
            self._kind.is_told_at_once and isinstance(error, UpstreamAnswered)
        )
        if client_retries and not self._calls.delivered:
            return False
        pause = (error.retry_after_ms or 0) / 1000
        # An attempt after the deadline would only cost money.
        return pause <= _LONGEST_RETRY_PAUSE_SECONDS and not self._calls.is_past_deadline_at(
            self._monotonic() + pause
        )

    def should_wait_for_quota(
        self, outcome: ModelFinish | EvenflowError, service_class: ServiceClass
    ) -> bool:
        """Whether to wait in the queue until the model's server takes calls again."""
        if (
            isinstance(outcome, ModelFinish)
            or not is_over_quota(outcome)
            or self._calls.gave_tokens
            or self._is_for_client(outcome)
        ):
            self.throttled = self.throttled_since = None
            self._calls_of_rejecting_server = 0
            return False
        now = self._monotonic()
        self.throttled = outcome
        if self.throttled_since is None:
            self.throttled_since = now
        self._throttled_calls += 1
        rejects_all = self._upstream.limiter.rejecting_since(own=1) < math.inf
        rejected = self._calls_of_rejecting_server
        self._calls_of_rejecting_server = rejected + 1 if rejects_all else 0
        names_it_wrongly = (
            outcome.retry_after_ms is not None
            and self._calls_of_rejecting_server >= _REJECTED_CALLS
            and now >= self.throttled_since + _REJECTED_SECONDS
        )
        pause = (outcome.retry_after_ms or 0) / 1000
        for_a_slot = outcome.retry_after_ms is None and self._upstream.limiter.is_answering
        most_calls = _MOST_CALLS_FOR_A_SLOT if for_a_slot else _MOST_THROTTLED_CALLS
        return (
            not names_it_wrongly
            and self._throttled_calls < most_calls
            and pause <= _LONGEST_RETRY_PAUSE_SECONDS
            and now + pause < self.quota_deadline(self.throttled_since, 1, service_class)
            and not self._calls.is_past_deadline_at(now + pause)
        )

    def quota_deadline(self, since: float, own_calls: int, service_class: ServiceClass) -> float:
        """Until when to wait for quota, in seconds. It is soon where the server rejects all calls.

        Args:
            since: the time of the first throttle.
            own_calls: how many of the running calls are this response's.
        """
        deadline = since + self._limits.queue_deadline_seconds
        if service_class is ServiceClass.BATCH:
            return deadline
        rejecting_since = max(since, self._upstream.limiter.rejecting_since(own_calls))
        return min(deadline, rejecting_since + _LONGEST_REJECTED_SECONDS)

    def _is_for_client(self, throttle: EvenflowError) -> bool:
        """Whether the client receives the throttle at once, and retries itself."""
        if not self._kind.is_told_at_once:
            return False
        # If the server only limits concurrent calls, one of them frees a slot soon.
        is_short = (throttle.retry_after_ms or 0) <= _SHORT_THROTTLE_MS
        is_soon = is_short and self._upstream.limiter.is_answering
        return self._kind.client_retries or not is_soon


def pause_before_retry(error: EvenflowError) -> float:
    """The seconds before another attempt, with jitter."""
    if error.retry_after_ms is None:
        return random.uniform(*_RETRY_PAUSE_SECONDS)
    # A server that throttles says when to try again: not before, and not all at once.
    return error.retry_after_ms / 1000 * random.uniform(1.0, _LATE_AT_MOST)
