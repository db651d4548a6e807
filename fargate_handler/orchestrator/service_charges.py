"""Accounts for fairness: the service that each tenant receives, on this node and on others.

Nothing is billed by these charges: `budget_reservations.py` settles what answers cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.slot_admission import Admission
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.queue.output_length_estimator import OutputLengthEstimator
from evenflow.stream_core.queue.recent_tenants import RecentTenants
from evenflow.stream_core.queue.token_counters import TokenCounters
from evenflow.stream_core.records.answer_usage import charged_usage
from evenflow.stream_core.tenants.tenant_activity import Activity

# Not at each token: that would cost as much as its delivery.
_CHARGED_EACH_SECONDS = 0.2
# The share of what other nodes have reported that is charged each second.
_CHARGED_SHARE = 0.4
_CLASSES = tuple(ServiceClass)
# The answers that a tenant can start at once after an idle time, and their most service.
_SAVED_UP_ANSWERS, _SAVED_UP = 4, 8_192.0


class ServiceCharges:
    """Charges answers when they start and end, and in between only where tenants are compared.

    A running answer is charged with the expected length of its tenant's answers, or with its own if
    that is longer. At its end the charge is corrected to its service: the `service` of `Activity`.

    Args:
        running: the generations with a slot, by their response ids.
        waiting: the generations that wait for one, likewise.
    """

    def __init__(
        self,
        context: NodeContext,
        running: Mapping[str, Generation],
        waiting: Mapping[str, Generation],
    ) -> None:
        self._tenants = tenants = context.tenants
        self._lengths = OutputLengthEstimator()
        self.counters = TokenCounters(
            lambda tenant: tenants.of(tenant).weight,
            self._most_saved_service,
        )
        self._running = running
        self._waiting = waiting
        self._running_of_tenant: Counter[str] = Counter()
        self.recent = RecentTenants()
        """The tenants with recent requests."""
        # By tenant the service on other nodes that is still to be charged.
        self._pending_from_other_nodes: dict[str, float] = {}
        self._most_prefills = context.limits.prefills_per_tenant
        self._monotonic = context.monotonic
        self._charged_at = context.monotonic()
        self._service = context.metrics.labelled(catalogue.SERVICE_CHARGED)

    def _most_saved_service(self, tenant: str) -> float:
        if not self._lengths.knows(tenant):
            return 0.0
        return min(_SAVED_UP, _SAVED_UP_ANSWERS * self._lengths.of(tenant).service)

    @property
    def has_many_tenants(self) -> bool:
        """Whether there is more than one tenant."""
        return self._tenants.has_several

    def runs_other_tenants(self, tenant: str) -> bool:
        """Whether answers of another tenant run."""
        return len(self._running_of_tenant) > (tenant in self._running_of_tenant)

    def record_request(self, tenant: str) -> None:
        """Record a request of the tenant."""
        self.recent.record_request(tenant, self._monotonic())

    def admission(self, waiting: Collection[str], urgency_of: Callable[[str], int]) -> Admission:
        """Make an `Admission` for now.

        Args:
            waiting: the tenants with waiting messages.
            urgency_of: the rank of a tenant's most urgent class. 0: the most urgent class.
        """
        now = self._monotonic()

        def urgency(tenant: str) -> int:
            if tenant in waiting:
                return urgency_of(tenant)
            return _CLASSES.index(self._tenants.of(tenant).service_class)

        return Admission(
            now,
            self.recent.has_several(now),
            self._most_prefills,
            waiting,
            urgency,
            lambda: self.recent.expected_idle_tenants(waiting, now),
            lambda: self.counters.least_served({*waiting, *self._running_of_tenant}),
            lambda generation: generation.meter.service_of(
                self._lengths.of(generation.line.tenant).tokens
            ),
        )

    def charge_compared(self) -> Collection[str]:
        """Charge the tenants that are to be compared up to now, and return them.

        These are the tenants with messages, if there are several or one waits. The others are
        charged what is pending from other nodes.
        """
        compared = self._competing()
        for tenant in self._pending_from_other_nodes.keys() - compared:
            self.counters.charge_on_other_nodes(tenant, self._pending_from_other_nodes.pop(tenant))
        if compared:
            self.charge_running_answers()
        return compared

    def _competing(self) -> Collection[str]:
        if not self.has_many_tenants:
            return ()
        waiting = {generation.line.tenant for generation in self._waiting.values()}
        active = {*self._running_of_tenant, *waiting}
        return active if len(active) > 1 or waiting else ()

    def counted(self, tenant: str) -> Mapping[str, float]:
        """The service of a tenant on this node, with the expected service of its running answers.

        Otherwise several nodes would make up for the same second, each for all of it.
        """
        expected = self.counters.expected(tenant)
        return {"service": self.counters.served.get(tenant, 0.0) + expected, "expected": expected}

    def charge_other_nodes(self, others: Activity) -> None:
        """Charge the service of a tenant on other nodes.

        It is charged over some seconds: all nodes receive the same difference, and each would make
        up for all of it at once.
        """
        pending = self._pending_from_other_nodes.pop(others.tenant, 0.0) + others.service
        if abs(pending) >= 1:
            self._pending_from_other_nodes[others.tenant] = pending * (1 - _CHARGED_SHARE)
            self.counters.charge_on_other_nodes(others.tenant, pending * _CHARGED_SHARE)

    def acquire_slot(self, generation: Generation) -> None:
        """Acquire the limiter's slot for a generation, and charge its expected service."""
        tenant = generation.line.tenant
        self._running_of_tenant[tenant] += 1
        stream = generation.stream
        # The first token of one that was taken over is not observed.
        is_new = not stream.tokens and stream.first_delta_at is None
        generation.upstream.limiter.acquire(
            stream.response_id,
            tenant,
            generation.sender_key,
            self._monotonic(),
            generation.meter.input_tokens if is_new else None,
        )
        self._charge(generation, still_running=True)

    def record_first_token(self, generation: Generation) -> None:
        """Record the first token of an answer: its prefill is over."""
        now = self._monotonic()
        generation.upstream.limiter.record_first_token(generation.stream.response_id, now)

    def release_slot(self, generation: Generation) -> None:
        """Release the limiter's slot of a generation, and charge its service so far."""
        tenant = generation.line.tenant
        self._running_of_tenant[tenant] -= 1
        response_id = generation.stream.response_id
        generation.upstream.limiter.release(response_id, tenant, generation.sender_key)
        if not self._running_of_tenant[tenant]:
            del self._running_of_tenant[tenant]
        self._charge(generation, still_running=False)

    def _charge(self, generation: Generation, *, still_running: bool) -> None:
        """Charge the service since the last charge, and what is expected if it is still running."""
        stream, tenant = generation.stream, generation.line.tenant
        usage = charged_usage(stream)
        # A failed attempt's tokens are in no usage.
        if usage is not None and stream.attempt == 1:
            service = generation.meter.update_charged(usage.completion_tokens, usage.prompt_tokens)
        else:
            service = generation.meter.update_charged(stream.tokens)
        if service:
            self.counters.charge(tenant, service)
        remaining = self._lengths.to_come(tenant, stream.tokens) if still_running else 0.0
        if expected := generation.meter.update_expected(remaining):
            self.counters.add_expected(tenant, expected)

    def settle(self, generation: Generation) -> None:
        """Charge the rest of an answer that has ended, or was handed over."""
        tenant = generation.line.tenant
        self._charge(generation, still_running=False)
        if generation.stream.state.terminal:
            self._lengths.ended(tenant, generation.stream.tokens, generation.meter.charged)
        self._service.count(tenant, times=max(0, round(generation.meter.charged)))

    def charge_running_answers(self) -> None:
        """Charge all running answers, unless that was done a moment ago."""
        now = self._monotonic()
        if now - self._charged_at < _CHARGED_EACH_SECONDS:
            return
        self._charged_at = now
        for generation in self._running.values():
            self._charge(generation, still_running=True)
