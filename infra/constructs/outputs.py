"""The outputs of the stacks: what a frontend and `evenflow tenants` need to know."""

from __future__ import annotations

import shlex

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.http.routes import CHAT, OPEN_SESSION, POST_MESSAGE, RUN, WEBSOCKET


def frontend_outputs(scope: Construct, settings: EnvironmentSettings, url: str) -> None:
    """Add the outputs.

    Args:
        url: what clients call.
    """
    for name, value, meaning in (
        ("Url", url, "The base of every call, and where there is one the page"),
        (
            "WebSocketUrl",
            f"ws{url.removeprefix('http')}{WEBSOCKET.path}",
            "Where clients open WebSockets",
        ),
        ("SessionUrl", url + OPEN_SESSION.path, "POST here opens a session"),
        ("MessageUrl", url + POST_MESSAGE.path, "POST here sends a message"),
        ("OpenAiUrl", f"{url}/v1", "The base URL of OpenAI's clients"),
        ("AiSdkUrl", url + CHAT.path, "The `api` of AI SDK's useChat"),
        ("AgUiUrl", url + RUN.path, "The URL of an AG-UI agent"),
        ("Region", settings.region.name, "Where it is deployed"),
        ("Installation", settings.prefix, "The installation and its environment"),
    ):
        cdk.CfnOutput(scope, name, value=value, description=meaning)


def tenants_output(
    scope: Construct, settings: EnvironmentSettings, *, table_name: str, model_name: str
) -> None:
    """Add the output. A shell that evaluates it has the variables.

    Args:
        table_name: the table of tenants.
        model_name: the model's name in the log, under which its price is looked up.
    """
    variables = {
        "AWS_REGION": settings.region.name,
        "EVENFLOW_STORE": "dynamodb",
        "EVENFLOW_TENANTS_TABLE": table_name,
        "EVENFLOW_MODEL_NAME": model_name,
        "EVENFLOW_MODELS": settings.inference.public_models,
        "EVENFLOW_MODEL_PRICES": settings.inference.model_prices(model_name),
    }
    assigned = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    cdk.CfnOutput(
        scope,
        "TenantsVariables",
        value=f"export {assigned}",
        description="The variables of `evenflow tenants`, for a shell to evaluate",
    )
