"""Charges tenants for what their answers are given, here and at other tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from evenflow.fargate_handler.orchestrator.admission import Admission
from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.queue.output_length_estimator import OutputLengthEstimator
from evenflow.stream_core.queue.recent_tenants import RecentTenants
from evenflow.stream_core.queue.token_counters import TokenCounters
from evenflow.stream_core.records.answer_usage import charged_usage
from evenflow.stream_core.tenants.tenant_activity import Activity

# Not by the token: that would cost as much as its delivery.
_CHARGED_EACH_SECONDS = 0.2
# Of what other tasks have told, each second.
_CHARGED_SHARE = 0.4
_CLASSES = tuple(ServiceClass)
# So many questions of a tenant that was idle needn't wait, however busy others are. As service.
_SAVED_UP_ANSWERS, _SAVED_UP = 4, 8_192.0


class ServiceCharges:
    """Charges answers when they begin and end, and between only where tenants are compared.

    While one runs its tenant is charged for an answer as long as its others were, or as long as it
    already is. In the end it is what was given. That alone is the `service` of `Activity`.

    Args:
        running: the generations that have a place, by their responses.
        waiting: those that have none.
    """

    def __init__(
        self,
        context: NodeContext,
        running: Mapping[str, Generation],
        waiting: Mapping[str, Generation],
    ) -> None:
        self._tenants = tenants = context.tenants
        self._usual = OutputLengthEstimator()
        self.counters = TokenCounters(
            lambda tenant: tenants.of(tenant).weight,
            self._may_have_saved_up,
        )
        self._running = running
        self._waiting = waiting
        self._of_tenant: Counter[str] = Counter()
        self.recent = RecentTenants()
        """Who has asked lately."""
        # What other tasks have told of tenants and is still to be charged.
        self._heard: dict[str, float] = {}
        self._most_prefills = context.limits.prefills_per_tenant
        self._monotonic = context.monotonic
        self._charged_at = context.monotonic()
        self._service = context.metrics.labelled(catalogue.SERVICE_CHARGED)

    def _may_have_saved_up(self, tenant: str) -> float:
        if not self._usual.knows(tenant):
            return 0.0
        return min(_SAVED_UP, _SAVED_UP_ANSWERS * self._usual.of(tenant).service)

    @property
    def shared(self) -> bool:
        """Whether there is more than one tenant."""
        return self._tenants.has_several

    def others_than(self, tenant: str) -> bool:
        """Whether answers of another tenant run."""
        return len(self._of_tenant) > (tenant in self._of_tenant)

    def asks(self, tenant: str) -> None:
        """A message of the tenant comes."""
        self.recent.record_request(tenant, self._monotonic())

    def admission(self, waiting: Collection[str], urgency_of: Callable[[str], int]) -> Admission:
        """Who may begin now.

        Args:
            waiting: tenants of whom messages wait.
            urgency_of: the place of a tenant's most urgent class, the first one's is 0.
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
            lambda: self.counters.least_served({*waiting, *self._of_tenant}),
            lambda generation: generation.meter.service_of(
                self._usual.of(generation.line.tenant).tokens
            ),
        )

    def compared(self) -> Collection[str]:
        """Tenants that have something to do, where there are several or anybody waits."""
        compared = self._that_compete()
        for tenant in self._heard.keys() - compared:
            self.counters.charge_on_other_nodes(tenant, self._heard.pop(tenant))
        if compared:
            self.bring_up_to_date()
        return compared

    def _that_compete(self) -> Collection[str]:
        if not self.shared:
            return ()
        waiting = {generation.line.tenant for generation in self._waiting.values()}
        active = {*self._of_tenant, *waiting}
        return active if len(active) > 1 or waiting else ()

    def counted(self, tenant: str) -> Mapping[str, float]:
        """What this task has given a tenant, and what its running answers are expected to be given.

        Otherwise several tasks would make up for the same second, each for all of it.
        """
        expected = self.counters.expected(tenant)
        return {"service": self.counters.served.get(tenant, 0.0) + expected, "expected": expected}

    def learned(self, others: Activity) -> None:
        """Other tasks have given a tenant something.

        It is charged over some seconds: all tasks hear of the same difference, and each would make
        up for all of it at once.
        """
        pending = self._heard.pop(others.tenant, 0.0) + others.service
        if abs(pending) >= 1:
            self._heard[others.tenant] = pending * (1 - _CHARGED_SHARE)
            self.counters.charge_on_other_nodes(others.tenant, pending * _CHARGED_SHARE)

    def starts(self, generation: Generation) -> None:
        """A generation gets a place."""
        tenant = generation.line.tenant
        self._of_tenant[tenant] += 1
        stream = generation.stream
        # The first token of one that was taken over is not observed.
        is_new = not stream.tokens and stream.first_delta_at is None
        generation.upstream.limiter.acquire(
            stream.response_id,
            tenant,
            generation.sender,
            self._monotonic(),
            generation.meter.input_tokens if is_new else None,
        )
        self._charge(generation, goes_on=True)

    def first_token(self, generation: Generation) -> None:
        """The first token of an answer came."""
        now = self._monotonic()
        generation.upstream.limiter.record_first_token(generation.stream.response_id, now)

    def leaves(self, generation: Generation) -> None:
        """A generation gives its place back."""
        tenant = generation.line.tenant
        self._of_tenant[tenant] -= 1
        response_id = generation.stream.response_id
        generation.upstream.limiter.release(response_id, tenant, generation.sender)
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]
        self._charge(generation, goes_on=False)

    def _charge(self, generation: Generation, *, goes_on: bool) -> None:
        """Charge what has come since the last time, and what will come if it goes on."""
        stream, tenant = generation.stream, generation.line.tenant
        usage = charged_usage(stream)
        # A failed attempt's tokens are in no usage.
        if usage is not None and stream.attempt == 1:
            service = generation.meter.update_charged(usage.completion_tokens, usage.prompt_tokens)
        else:
            service = generation.meter.update_charged(stream.tokens)
        if service:
            self.counters.charge(tenant, service)
        to_come = self._usual.to_come(tenant, stream.tokens) if goes_on else 0.0
        if expected := generation.meter.update_expected(to_come):
            self.counters.add_expected(tenant, expected)

    def ended(self, generation: Generation) -> None:
        """Charge the rest of an answer that has ended, or goes on elsewhere."""
        tenant = generation.line.tenant
        self._charge(generation, goes_on=False)
        if generation.stream.state.terminal:
            self._usual.ended(tenant, generation.stream.tokens, generation.meter.charged)
        self._service.count(tenant, times=max(0, round(generation.meter.charged)))

    def bring_up_to_date(self) -> None:
        """Charge all that run, unless that was done a moment ago."""
        now = self._monotonic()
        if now - self._charged_at < _CHARGED_EACH_SECONDS:
            return
        self._charged_at = now
        for generation in self._running.values():
            self._charge(generation, goes_on=True)
