"""The tenants' keys in Secrets Manager open `/v1`: change one URL, and nothing else."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from tests.integration.aws_emulator import AwsEmulator
from tests.integration.chat_client import call
from tests.integration.conftest import Serve
from tests.integration.deployment import SIGNING_KEYS, AwsDeployment
from tests.integration.openai.conftest import At
from tests.integration.server_process import free_ports

_ACME, _ZETA, _LATER = "acme-key-0123456789", "zeta-key-0123456789", "acme-key-9876543210"
_SECONDS = 30


@pytest.fixture
def secret(emulated_aws: AwsEmulator) -> str:
    """The name of a secret with two tenants."""
    name = f"tenants-{free_ports(1)[0]}"
    keys = json.dumps({"acme": _ACME, "zeta": _ZETA})
    emulated_aws.client("secretsmanager").create_secret(Name=name, SecretString=keys)
    return name


async def test_a_tenants_key_opens_it_and_nothing_else_does_but_a_session_s_token(
    aws_deployment: AwsDeployment, secret: str, at: At, http: aiohttp.ClientSession
) -> None:
    server = await aws_deployment.handler(tenant_keys_secret=secret, log_level="debug")
    by_key = {"Authorization": f"Bearer {_ACME}"}
    session = await call(http, "POST", f"{server.http_url}/session", {}, headers=by_key)
    for key in (_ACME, _ZETA, session.json["token"]):
        assert (await at(server, key).ask("#demo tokens=2")).status == 200
    for key in ("sk-anything", _ACME[:-1], ""):
        refused = await at(server, key).ask("#demo tokens=2")
        assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
    assert _ACME not in server.log
    assert _ZETA not in server.log


async def test_a_key_that_was_changed_is_in_force_when_the_secret_has_been_read_again(
    emulated_aws: AwsEmulator, secret: str, at: At, serve: Serve
) -> None:
    server = await serve(
        emulated_aws.environment, token_keys_secret=SIGNING_KEYS, tenant_keys_secret=secret
    )

    async def models(*keys: str) -> list[int]:
        return [(await at(server, key).get("/models")).status for key in keys]

    assert await models(_ACME, _LATER) == [200, 401]
    secrets = emulated_aws.client("secretsmanager")
    secrets.put_secret_value(SecretId=secret, SecretString=json.dumps({"acme": _LATER}))
    assert await models(_LATER) == [401]
    server.handler._keys._keys_due_at = 0.0  # five minutes later
    await serve.time_passes(1)
    async with asyncio.timeout(_SECONDS):
        while await models(_LATER) != [200]:  # noqa: ASYNC110 - it is another one that reads
            await asyncio.sleep(0.01)
    assert await models(_ACME, _ZETA) == [401, 401]
