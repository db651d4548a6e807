"""The permission to apply guardrails of Bedrock."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam

from evenflow.infra.settings.filter_settings import GuardrailName


def guardrail_statements(
    stack: Stack, guardrail: GuardrailName | None
) -> list[iam.PolicyStatement]:
    """The statement for the role of who applies it. None for no guardrail."""
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
