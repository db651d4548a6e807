"""Which model the handlers, or their workers, call, and what they must be allowed for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from aws_cdk import aws_iam as iam


@dataclass(frozen=True)
class ModelAccess:
    """EVENFLOW_MODEL, EVENFLOW_MODEL_NAME and EVENFLOW_WORKERS of whoever calls it, and the statements for its task role."""

    kind: str
    name: str | None = None
    workers: str | None = None
    statements: list[iam.PolicyStatement] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        """The container's variables."""
        given = {"EVENFLOW_MODEL": self.kind, "EVENFLOW_MODEL_NAME": self.name, "EVENFLOW_WORKERS": self.workers}
        return {variable: value for variable, value in given.items() if value is not None}

    def behind(self, workers: str) -> ModelAccess:
        """The same model for handlers that leave it to workers at this address: its name stays what clients call it."""
        return ModelAccess("grpc", name=self.name or self.kind, workers=workers)
