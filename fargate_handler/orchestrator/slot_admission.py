"""Decides which waiting generations may start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import NamedTuple

from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.fargate_handler.orchestrator.upstream import Upstream
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.upstream.concurrency_limiter import ConcurrencyLimiter

_CLOSED, _OPEN = -1.0, inf


class AdmissionGroup(NamedTuple):
    """The waiting generations of a tenant for which admission gives the same answer.

    `has_started`: whether they have tokens already.
    `is_batch`: whether they are of the batch class.
    """

    upstream: Upstream
    has_started: bool
    is_batch: bool

    @classmethod
    def of(cls, generation: Generation) -> AdmissionGroup:
        """The group of a waiting generation."""
        return cls(
            generation.upstream,
            has_started=generation.stream.tokens > 0,
            is_batch=generation.line.service_class is ServiceClass.BATCH,
        )


class Admission:
    """Decides which waiting generations may start. Valid until the next start.

    The concurrency limiter of its model has to allow it. While several tenants have sent requests
    lately, and prompts in prefill would delay a newcomer, or only reserved calls are left, an
    answer starts only if its tenant stays the least served one.

    A limit by rejections (429) is divided, too. A tenant has at most its share plus one while a
    tenant below its share waits, here or on another node: reports of other nodes are late, so many
    answers of one tenant would start at once, and then none for long. The limit of an inference
    engine is not divided: there only the rule of the least served tenant holds.

    While no limit is known, slow start bounds the answers of several tenants, and those of the
    batch class: others must not wait behind them. A single tenant's other answers all start at
    once.

    The result is cached for all messages of a tenant to a model, since thousands may wait. Tenants
    are compared only where it matters.

    Args:
        now: in seconds.
        has_many_tenants: whether several have sent requests lately.
        most_prefills: the most answers of a tenant without a token. None: any number.
        waiting: the tenants with waiting messages.
        urgency_of: the rank of a tenant's most urgent class, 0 for the most urgent. Without waiting
            messages here: of its own class.
        may_come: finds tenants that may send requests and have none waiting, two if there are.
        least_served: finds the least served tenant, as `TokenCounters.least_served`.
        service_of: the expected service of a generation.
    """

    def __init__(
        self,
        now: float,
        has_many_tenants: bool,
        most_prefills: int | None,
        waiting: Collection[str],
        urgency_of: Callable[[str], int],
        may_come: Callable[[], Sequence[str]],
        least_served: Callable[[], tuple[str, float] | None],
        service_of: Callable[[Generation], float],
    ) -> None:
        self._now = now
        self._has_many_tenants = has_many_tenants
        self._most_prefills = most_prefills
        self._waiting = waiting
        self._urgency_of = urgency_of
        self._find_may_come = may_come
        self._find_least_served = least_served
        self._service_of = service_of
        self._may_come: Sequence[str] | None = None
        self._least: tuple[str, float] | None = None
        self._rooms: dict[tuple[str, AdmissionGroup], float] = {}

    def __call__(self, generation: Generation) -> bool:
        """Whether a generation may start."""
        if generation.not_before > self._now:
            return False
        tenant, group = generation.line.tenant, AdmissionGroup.of(generation)
        room = self._room(tenant, group)
        if room <= 0 or room == _OPEN:
            return room > 0
        if self._service_of(generation) <= room:
            return True
        self._note_waiting(group.upstream.limiter)
        return False

    def closed(self, tenant: str, group: AdmissionGroup) -> bool:
        """Whether no generation of this group may start for a tenant."""
        return self._room(tenant, group) <= 0

    def _room(self, tenant: str, group: AdmissionGroup) -> float:
        """The most expected service with which a generation of this group may start."""
        room = self._rooms.get((tenant, group))
        if room is None:
            room = self._rooms[tenant, group] = self._find_room(tenant, group)
        return room

    def _find_room(self, tenant: str, group: AdmissionGroup) -> float:
        limiter = group.upstream.limiter
        if not limiter.may_start(tenant, self._now, needs_room=self._needs_room(group)):
            return _CLOSED
        if group.has_started:
            return _OPEN
        return self._room_among_tenants(tenant, limiter)

    def _room_among_tenants(self, tenant: str, limiter: ConcurrencyLimiter) -> float:
        if self._has_most_prefills(tenant, limiter) or self._has_its_share(tenant, limiter):
            return _CLOSED
        if not self._has_many_tenants or not (limiter.window_is_full or limiter.only_reserved):
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

    def _needs_room(self, group: AdmissionGroup) -> bool:
        """Whether answers of this group may start only within the model's concurrency limit."""
        if group.has_started:
            return False
        is_known = group.upstream.limiter.limit.share is not None
        return is_known or self._has_many_tenants or group.is_batch

    def _has_most_prefills(self, tenant: str, limiter: ConcurrencyLimiter) -> bool:
        most = self._most_prefills
        return most is not None and limiter.prefills_of(tenant) >= most

    def _has_its_share(self, tenant: str, limiter: ConcurrencyLimiter) -> bool:
        """Whether a tenant has the most calls of its share while a message as urgent waits: of a
        tenant that may still start a call here, or of any on another node.
        """
        limit, has = limiter.limit, limiter.of_tenants
        most_calls = limit.most_calls_of(tenant)
        if most_calls is None or has[tenant] < most_calls:
            return False

        urgency = self._urgency_of(tenant)

        def is_as_urgent(other: str) -> bool:
            return other != tenant and self._urgency_of(other) <= urgency

        here = (it for it in self._waiting if has[it] < (limit.most_calls_of(it) or 0))
        return any(map(is_as_urgent, here)) or limit.on_other_nodes.any_waits(is_as_urgent)
