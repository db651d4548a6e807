"""A model at its server, as this task knows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf

from evenflow.fargate_handler.orchestrator.model_context import StatedContext
from evenflow.fargate_handler.token_sources.port import TokenSource
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.upstream.adaptive_ceiling import AdaptiveCeiling
from evenflow.stream_core.upstream.circuit_breaker import CircuitBreaker
from evenflow.stream_core.upstream.prefills import Prefills
from evenflow.stream_core.upstream.refused_questions import Held, Question


@dataclass(frozen=True, slots=True)
class Upstream:
    """What all answers of one model have in common.

    Args:
        name: the model's, at its server.
        breaker: rejects calls while they fail.
        ceiling: how many calls it takes at once.
        prefills: the answers that have no token yet.
        calls_of: how many of its calls run, by tenants.
        context: how long its server has said that a request may be.
    """

    name: str
    source: TokenSource
    breaker: CircuitBreaker
    ceiling: AdaptiveCeiling
    prefills: Prefills
    calls_of: Counter[str] = field(default_factory=Counter, compare=False)
    context: StatedContext = field(default_factory=StatedContext, compare=False)

    @property
    def answered(self) -> int:
        """How many calls that run have a token."""
        return self.ceiling.running - len(self.prefills)

    @property
    def answers_anybody(self) -> bool:
        """Whether any call that runs has a token, here or, as they told last, at other tasks."""
        return self.answered + self.prefills.slots.elsewhere.answered > 0

    def refuses_since(self, own: int) -> float:
        """Since when its server has refused every call, in seconds. inf: it answers.

        Args:
            own: how many of the calls that run are the caller's. Others were taken.
        """
        if self.ceiling.running > own or self.prefills.slots.elsewhere.answered:
            return inf
        return self.ceiling.refuses_since

    def takes(self, now: float, shared: bool, tenant: str, goes_on: bool = False) -> bool:
        """Whether one more answer may begin, for a tenant.

        Args:
            shared: whether there is more than one tenant. Otherwise its slots bound nothing.
            goes_on: whether it has begun before. It needs no slot.
        """
        if self._slots_bound(shared):
            room = not self.ceiling.opens_in(now)
        else:
            room = self.ceiling.has_room(now)
        has_slot = goes_on or not shared or self.prefills.has_slot(self.ceiling.running, tenant)
        return room and has_slot

    def full(self, shared: bool) -> bool:
        """Whether as many calls run as the server is known to take. `shared`: as of `takes`."""
        running, limit = self.ceiling.running, self.ceiling.limit
        if limit is not None and running >= limit and not self._slots_bound(shared):
            return True
        return shared and not self.prefills.has_slot(running)

    def _slots_bound(self, shared: bool) -> bool:
        """Whether the slots bound in the place of the ceiling: they know of each refusal, too, and
        of what other tasks ask.
        """
        return shared and self.prefills.slots.part is not None

    def throttled(
        self,
        now: float,
        began_at: float,
        retry_after: float | None,
        question: Question | None = None,
    ) -> float:
        """Note that a running call was throttled. The arguments are those of the ceiling's method.

        Returns:
            The seconds until the server accepts this question.
        """
        slots = self.prefills.slots
        throttle = self.ceiling.throttled(
            now, began_at, retry_after, slots.elsewhere.running, question
        )
        if throttle.held is Held.EVERYBODY:
            slots.refused(self.ceiling.running - 1, began_at, now)
        return throttle.seconds


@dataclass(slots=True)
class Upstreams:
    """The models that were asked."""

    source: TokenSource
    limits: Limits
    by_name: dict[str, Upstream] = field(default_factory=dict)
    """By their names at their server."""

    @property
    def breakers_open(self) -> int:
        """The number of models that reject calls, with no successful call since."""
        return sum(it.breaker.failing for it in self.by_name.values())

    @property
    def lowest_ceiling(self) -> int:
        """The lowest of all ceilings and parts of slots. 0 where none is known."""
        upstreams = self.by_name.values()
        limits = (limit for it in upstreams for limit in (it.ceiling.limit, it.prefills.slots.part))
        return min((limit for limit in limits if limit is not None), default=0)

    def of(self, name: str) -> Upstream:
        """The upstream of a model."""
        upstream = self.by_name.get(name)
        if upstream is None:
            limits = self.limits
            upstream = self.by_name[name] = Upstream(
                name,
                self.source,
                CircuitBreaker(limits.breaker_failures, limits.breaker_open_seconds),
                AdaptiveCeiling(),
                Prefills(limits.prefill_delay_ms / 1000),
            )
        return upstream
