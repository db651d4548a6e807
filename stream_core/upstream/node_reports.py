"""The port by which nodes report their calls and the use of tenants to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

from evenflow.stream_core.tenants.tenant_activity import Activity

KEPT_SECONDS = 10.0
"""How long a report is kept after it was written. A node without one has left, or is idle."""


class ModelCallReport(BaseModel):
    """One node's calls of one model.

    Args:
        running: calls that have not ended.
        answered: the running calls that have a token.
        prompts: tokens of the prompts of running calls without a token.
        wanted: the calls that run or wait, by tenant, for the 50 tenants with most.
        delay: of a first token, by each token of a prompt ahead of it, in seconds. 0: none is
            certain.
        limit: the concurrency limit of the model's server, as this node has learned it. None: not
            learned.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    running: int = 0
    answered: int = 0
    prompts: int = 0
    wanted: Mapping[str, int] = {}
    delay: float = 0.0
    limit: int | None = Field(default=None, alias="slots")


class NodeReport(BaseModel):
    """What one node does now. The names in JSON are those of earlier versions.

    Args:
        node: its name.
        requests: the requests so far of tenants that it expects back, by tenant, ten at most.
        calls: by the name of the model on its server, for models with calls.
        activity: the counts of a tenant's `Activity` that are not 0, by tenant.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    node: str = Field(alias="task")
    requests: Mapping[str, int] = Field(default={}, alias="asked")
    calls: Mapping[str, ModelCallReport] = {}
    activity: Mapping[str, Mapping[str, int | float]] = {}

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `to_text` has written. Fields that a later version has added are left out."""
        return cls.model_validate_json(text)

    def to_text(self) -> str:
        """The report as JSON."""
        return self.model_dump_json(by_alias=True)

    def activity_of(self, tenant: str) -> Activity | None:
        """What the node does for a tenant. None: it reports nothing of it."""
        counts = self.activity.get(tenant)
        return None if counts is None else Activity.of(tenant, self.node, counts)


class NodeReports(Protocol):
    """One report a node. `now` is in seconds since the epoch.

    Every method may raise StoreUnavailable.
    """

    async def publish(self, report: NodeReport, now: float) -> None:
        """Write this node's report over its earlier one. It expires after ten seconds."""

    async def read_all(self, now: float) -> Sequence[NodeReport]:
        """The reports of all nodes that have not expired."""
