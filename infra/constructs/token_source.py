"""Which model the handlers call, and what they must be allowed for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from aws_cdk import aws_iam as iam


@dataclass(frozen=True)
class TokenSource:
    """The handler's EVENFLOW_MODEL and EVENFLOW_MODEL_NAME, and the statements for its task role."""

    kind: str
    name: str | None = None
    statements: list[iam.PolicyStatement] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        """The container's variables."""
        name = {"EVENFLOW_MODEL_NAME": self.name} if self.name else {}
        return {"EVENFLOW_MODEL": self.kind, **name}
