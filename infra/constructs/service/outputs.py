"""What `evenflow tenants` needs to know, as an output of the stack."""

from __future__ import annotations

import shlex

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.constructs.inference.model_access import ModelAccess
from evenflow.infra.settings.environment_settings import EnvironmentSettings


def tenants_output(
    scope: Construct, settings: EnvironmentSettings, table: str, model_access: ModelAccess
) -> None:
    """Add the output. A shell that evaluates it has the variables.

    Args:
        table: the name of the table of tenants.
    """
    name_in_log = model_access.name_in_log
    variables = {
        "AWS_REGION": settings.region.name,
        "EVENFLOW_STORE": "dynamodb",
        "EVENFLOW_TENANTS_TABLE": table,
        "EVENFLOW_MODEL_NAME": name_in_log,
        "EVENFLOW_MODELS": settings.inference.public_models,
        "EVENFLOW_MODEL_PRICES": settings.inference.model_prices(name_in_log),
    }
    assigned = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    cdk.CfnOutput(
        scope,
        "TenantsVariables",
        value=f"export {assigned}",
        description="The variables of `evenflow tenants`, for a shell to evaluate",
    )
