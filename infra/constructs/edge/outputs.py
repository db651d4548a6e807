"""What a frontend needs to know, as outputs of the stack."""

from __future__ import annotations

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
