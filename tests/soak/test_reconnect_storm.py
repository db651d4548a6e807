"""A hundred and twenty-eight clients come back at once."""

from __future__ import annotations

import aiohttp
import pytest

from evenflow.stream_core.auth.session_token import SessionTokens
from tests.integration.conftest import (
    OpenSession,
    aws_deployment,
    emulated_aws,
    emulated_dynamodb,
    http,
    opened,
    serve,
)
from tests.integration.deployment import AwsDeployment
from tests.integration.dynamodb_emulator import DynamoDBEmulator
from tests.integration.test_reconnect_storm import Storm, everybody_comes_back, line, tokens

# Fixtures.
__all__ = [
    "aws_deployment",
    "emulated_aws",
    "emulated_dynamodb",
    "http",
    "line",
    "opened",
    "serve",
    "tokens",
]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("via", ["peer", "store"])
async def test_everybody_comes_back_at_once(
    via: str,
    aws_deployment: AwsDeployment,
    line: DynamoDBEmulator,
    tokens: SessionTokens,
    http: aiohttp.ClientSession,
    opened: OpenSession,
) -> None:
    many = Storm(answers=16, tokens=60, new=15, per_second=30)
    await everybody_comes_back(many, via, aws_deployment, line, tokens, http, opened)
