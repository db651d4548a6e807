"""Whether an environment's answers are traced, by which collector, and how many of them."""

from __future__ import annotations

from pydantic import Field, field_validator

from evenflow.infra.settings.image_reference import ecr_image
from evenflow.infra.settings.stack_settings import Settings


class TracingSettings(Settings):
    """Traces of handlers and workers in X-Ray, by a collector in each task.

    Args:
        collector_image: AWS' collector for OpenTelemetry in a repository of yours, by its digest:
            tasks reach no public registry.
        share: of the traces, how much is sampled. Who asks has no say in it, since traces cost.
        collector_cpu: what the task keeps for the collector, in Fargate's units.
        collector_memory_mib: likewise of its memory. The collector has no more.
    """

    collector_image: str
    share: float = Field(0.05, ge=0, le=1)
    collector_cpu: int = Field(64, ge=32)
    collector_memory_mib: int = Field(128, ge=64)

    @field_validator("collector_image")
    @classmethod
    def _is_in_ecr_by_digest(cls, reference: str) -> str:
        image = ecr_image(reference)
        if image is None or not image.is_by_digest:
            raise ValueError(
                "must be <account>.dkr.ecr.<region>.amazonaws.com/<repository>@sha256:<digest>"
            )
        return reference
