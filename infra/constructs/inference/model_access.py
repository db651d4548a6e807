"""The model that tasks call, and the permissions for it and for guardrails."""

from __future__ import annotations

from dataclasses import dataclass, field

from aws_cdk import Stack
from aws_cdk import aws_iam as iam

from evenflow.infra.settings.inference_settings import GuardrailName


def guardrail_statements(
    stack: Stack, guardrail: GuardrailName | None
) -> list[iam.PolicyStatement]:
    """The statement for the role that applies the guardrail. Empty without one."""
    if guardrail is None:
        return []
    named = guardrail.rpartition(":")[0]
    arn = (
        named
        if named.startswith("arn:")
        else stack.format_arn(service="bedrock", resource="guardrail", resource_name=named)
    )
    return [
        iam.PolicyStatement(sid="Guardrail", actions=["bedrock:ApplyGuardrail"], resources=[arn])
    ]


@dataclass(frozen=True)
class ModelAccess:
    """The variables that name the model and the workers, and the statements for the task's role.

    Args:
        log_name: the model's name in the log, by which its price is looked up: as the handlers'
            `own_model_name` has it. None: `name`, or `kind`.
        further: variables of the process that calls the model itself.
        policy_id: the construct id of the policy. Each model with a generated name has its own, so
            that old tasks keep access to the old model until the deployment has replaced them.
    """

    kind: str
    name: str | None = None
    log_name: str | None = None
    workers: str | None = None
    further: dict[str, str] = field(default_factory=dict)
    statements: list[iam.PolicyStatement] = field(default_factory=list)
    policy_id: str = "Model"

    @property
    def variables(self) -> dict[str, str]:
        """The container's variables."""
        variables = {
            "EVENFLOW_MODEL": self.kind,
            "EVENFLOW_MODEL_NAME": self.name,
            "EVENFLOW_WORKERS": self.workers,
        }
        named = {name: value for name, value in variables.items() if value is not None}
        return named | self.further

    @property
    def name_in_log(self) -> str:
        """The model's name in the log."""
        return self.log_name or self.name or self.kind

    def allow(self, role: iam.Role) -> None:
        """Add the permissions to a task's role. Resources that need the role wait for them."""
        if self.statements:
            iam.Policy(role, self.policy_id, statements=self.statements, roles=[role])

    def behind(self, workers: str) -> ModelAccess:
        """Access for handlers whose workers at this address call the model, by the same name."""
        name = self.name or self.kind
        return ModelAccess("grpc", name=name, log_name=self.log_name, workers=workers)
