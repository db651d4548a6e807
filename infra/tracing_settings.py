"""Whether an environment's answers are traced, by which collector, and how many of them."""

from __future__ import annotations

from pydantic import Field

from infra.stack_settings import Settings


class TracingSettings(Settings):
    """Traces of handlers and workers in X-Ray, by a collector in each task.

    Args:
        collector_image: AWS' collector for OpenTelemetry in a repository of yours, by its digest:
            tasks reach no public registry.
        share: of the traces, how much is sampled. Who asks has no say in it, since traces cost.
        collector_cpu: what the task keeps for the collector, in Fargate's units.
        collector_memory_mib: likewise of its memory. The collector has no more.
    """

    collector_image: str = Field(
        pattern=r"^\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com/[a-z0-9._/-]+@sha256:[0-9a-f]{64}$"
    )
    share: float = Field(0.05, ge=0, le=1)
    collector_cpu: int = Field(64, ge=32)
    collector_memory_mib: int = Field(128, ge=64)
