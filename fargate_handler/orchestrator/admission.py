"""Who of those that wait may begin now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import NamedTuple

from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.fargate_handler.orchestrator.upstream import Upstream
from evenflow.stream_core.upstream.concurrency_limiter import ConcurrencyLimiter

_CLOSED, _OPEN = -1.0, inf


class AnswerKind(NamedTuple):
    """What decides for many that wait whether they may begin.

    `goes_on`: whether it has begun before.
    """

    upstream: Upstream
    goes_on: bool

    @classmethod
    def of(cls, generation: Generation) -> AnswerKind:
        """The kind of one that waits."""
        return cls(generation.upstream, goes_on=generation.stream.tokens > 0)


class Admission:
    """Whether a generation may begin, as long as nothing else does.

    The concurrency limiter of its model has to allow it. While several tenants have sent requests
    lately, and prompts in prefill would delay a newcomer, or only reserved calls are left, an
    answer starts only if its tenant stays the least served one. A tenant has no more than its share
    of the limit, and one, while another waits that has less, here or on another node: reports of
    other nodes are late, so many answers of one would start at once, and then none for long.

    What holds for all messages of a tenant to a model is found out once, since thousands may wait,
    and what is compared with others only where it matters.

    Args:
        now: in seconds.
        several: whether more than one has asked lately.
        most_prefills: how many answers of a tenant may have no token yet. None: any number.
        waiting: tenants of whom messages wait.
        urgency_of: the place of a tenant's most urgent class, the first one's is 0. Of one of whom
            nothing waits here: of its own class.
        may_come: finds tenants that may ask and wait for nothing, two at least if there are.
        least_served: finds who was given least, as `TokenCounters.least_served` tells.
        service_of: the service that a generation is expected to be given.
    """

    def __init__(
        self,
        now: float,
        several: bool,
        most_prefills: int | None,
        waiting: Collection[str],
        urgency_of: Callable[[str], int],
        may_come: Callable[[], Sequence[str]],
        least_served: Callable[[], tuple[str, float] | None],
        service_of: Callable[[Generation], float],
    ) -> None:
        self._now = now
        self._several = several
        self._most_prefills = most_prefills
        self._waiting = waiting
        self._urgency_of = urgency_of
        self._find_may_come = may_come
        self._find_least_served = least_served
        self._service_of = service_of
        self._may_come: Sequence[str] | None = None
        self._least: tuple[str, float] | None = None
        self._rooms: dict[tuple[str, ConcurrencyLimiter], float] = {}

    def __call__(self, generation: Generation) -> bool:
        """Whether it may begin."""
        if generation.held_until > self._now:
            return False
        tenant, kind = generation.line.tenant, AnswerKind.of(generation)
        room = self._room(tenant, kind)
        if room <= 0 or room == _OPEN:
            return room > 0
        if self._service_of(generation) <= room:
            return True
        self._note_waiting(kind.upstream.limiter)
        return False

    def closed(self, tenant: str, kind: AnswerKind) -> bool:
        """Whether nothing of this kind may begin for a tenant."""
        return self._room(tenant, kind) <= 0

    def _room(self, tenant: str, kind: AnswerKind) -> float:
        """The most service of an answer of this kind that may begin for a tenant."""
        upstream = kind.upstream
        if kind.goes_on:
            may_resume = upstream.limiter.may_start(tenant, self._now, resumes=True)
            return _OPEN if may_resume else _CLOSED
        room = self._rooms.get((tenant, upstream.limiter))
        if room is None:
            room = self._rooms[tenant, upstream.limiter] = self._find_room(tenant, upstream.limiter)
        return room

    def _find_room(self, tenant: str, limiter: ConcurrencyLimiter) -> float:
        if self._is_closed(tenant, limiter):
            return _CLOSED
        if not self._several or not (limiter.window_is_full or limiter.only_reserved):
            return _OPEN
        if self._may_come is None:
            self._may_come = self._find_may_come()
        if all(other == tenant for other in self._may_come):
            return _OPEN
        if self._least is None:
            self._least = self._find_least_served() or (tenant, 0.0)
        least, room = self._least
        if least == tenant and room > 0:
            return room
        self._note_waiting(limiter)
        return _CLOSED

    def _note_waiting(self, limiter: ConcurrencyLimiter) -> None:
        if limiter.window_is_full:  # otherwise the concurrency limit bounds
            limiter.window.record_waiting()

    def _is_closed(self, tenant: str, limiter: ConcurrencyLimiter) -> bool:
        """Whether no answer of this tenant may begin, whoever else waits."""
        most = self._most_prefills
        return (
            not limiter.may_start(tenant, self._now)
            or (most is not None and limiter.prefills_of(tenant) >= most)
            or self._has_its_share(tenant, limiter)
        )

    def _has_its_share(self, tenant: str, limiter: ConcurrencyLimiter) -> bool:
        """Whether a tenant has its share of the limit, and another one waits that has not, or waits
        on another node, for something as urgent.
        """
        limit, has = limiter.limit, limiter.of_tenants
        most = limit.share_of(tenant)
        if most is None or has[tenant] < most:
            return False

        urgency = self._urgency_of(tenant)

        def is_as_urgent(other: str) -> bool:
            return other != tenant and self._urgency_of(other) <= urgency

        here = (it for it in self._waiting if has[it] < (limit.share_of(it) or 0))
        return any(map(is_as_urgent, here)) or limit.on_other_nodes.any_waits(is_as_urgent)
