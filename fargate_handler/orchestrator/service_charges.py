"""Charges tenants for what the answers that run have been given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fargate_handler.node_context import NodeContext
from fargate_handler.orchestrator.generation import Generation
from stream_core.fairness.token_counters import TokenCounters
from stream_core.metrics import metric_catalogue as catalogue

# Not by the token: that would cost as much as its delivery.
_CHARGED_EACH_SECONDS = 0.2


class ServiceCharges:
    """Charges answers when they begin and end, and between only where tenants are compared.

    Args:
        running: the generations that have a place, by their responses.
    """

    def __init__(self, context: NodeContext, running: Mapping[str, Generation]) -> None:
        tenants = context.tenants
        self.counters = TokenCounters(lambda tenant: tenants.of(tenant).weight)
        self._running = running
        self._of_tenant: Counter[str] = Counter()
        self._without_token: Counter[str] = Counter()
        self._most_prefills = context.limits.most_prefills_per_tenant
        self._monotonic = context.monotonic
        self._charged_at = context.monotonic()
        self._service = context.metrics.labelled(catalogue.SERVICE_CHARGED)

    def others_than(self, tenant: str) -> bool:
        """Whether answers of another tenant run."""
        return len(self._of_tenant) > (tenant in self._of_tenant)

    @property
    def prefilling(self) -> frozenset[str]:
        """Tenants of whose answers as many as allowed have begun and have no token yet."""
        return frozenset(
            tenant for tenant, count in self._without_token.items() if count >= self._most_prefills
        )

    def starts(self, generation: Generation) -> None:
        """A generation gets a place."""
        tenant = generation.line.tenant
        self._of_tenant[tenant] += 1
        self._without_token[tenant] += not generation.stream.tokens
        self.charge(generation)

    def leaves(self, generation: Generation) -> None:
        """A generation gives its place back."""
        tenant = generation.line.tenant
        self._of_tenant[tenant] -= 1
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]
            del self._without_token[tenant]
        self.charge(generation)

    def charge(self, generation: Generation) -> None:
        """Charge what has come since the last time."""
        stream, tenant = generation.stream, generation.line.tenant
        usage = stream.usage
        # A failed attempt's tokens are in no usage.
        if usage is not None and stream.attempt == 1:
            service = generation.meter.grown(usage.completion_tokens, usage.prompt_tokens)
        else:
            service = generation.meter.grown(stream.tokens)
        if service:
            self.counters.charge(tenant, service)

    def ended(self, generation: Generation) -> None:
        """Charge the rest of an answer that has ended, or goes on elsewhere."""
        self.charge(generation)
        charged = max(0, round(generation.meter.charged))
        self._service.count(generation.line.tenant, times=charged)

    def bring_up_to_date(self) -> None:
        """Charge all that run, unless that was done a moment ago."""
        now = self._monotonic()
        if now - self._charged_at < _CHARGED_EACH_SECONDS:
            return
        self._charged_at = now
        self._without_token.clear()
        for generation in self._running.values():
            self.charge(generation)
            if not generation.stream.tokens:
                self._without_token[generation.line.tenant] += 1
