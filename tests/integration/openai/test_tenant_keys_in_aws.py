"""The tenants' keys in Secrets Manager open `/v1`: change one URL, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from fargate_handler.chosen_adapters import open_adapters
from fargate_handler.handler import Handler
from fargate_handler.metrics import Metrics
from fargate_handler.settings import load_settings
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.chat_client import call
from tests.integration.conftest import OpenSession
from tests.integration.deployment import SIGNING_KEYS, Deployment
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
    process_deployment: Deployment, secret: str, at: At, opened: OpenSession
) -> None:
    server = await process_deployment.handler(tenant_keys_secret=secret, log_level="debug")
    for key in (_ACME, _ZETA, (await opened(server)).token):
        assert (await at(server, key).ask("#demo tokens=2")).status == 200
    for key in ("sk-anything", _ACME[:-1], ""):
        refused = await at(server, key).ask("#demo tokens=2")
        assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
    assert _ACME not in server.log
    assert _ZETA not in server.log


async def test_a_key_that_was_changed_is_in_force_when_the_secret_has_been_read_again(
    emulated_aws: AwsEmulator, secret: str, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _node(emulated_aws, secret, monkeypatch) as (handler, url):
        assert (await _models(http, url, _ACME), await _models(http, url, _LATER)) == (200, 401)
        secrets = emulated_aws.client("secretsmanager")
        secrets.put_secret_value(SecretId=secret, SecretString=json.dumps({"acme": _LATER}))
        assert await _models(http, url, _LATER) == 401
        handler._read_keys_at = 0.0  # five minutes later
        async with asyncio.timeout(_SECONDS):
            while await _models(http, url, _LATER) != 200:  # noqa: ASYNC110 - it is another one that reads
                await asyncio.sleep(0.1)
        assert [await _models(http, url, key) for key in (_ACME, _ZETA)] == [401, 401]


@asynccontextmanager
async def _node(aws: AwsEmulator, secret: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Handler, str]]:
    """A handler in this process, so that its five minutes can be over at once; and its address."""
    http_port, ws_port = free_ports(2)
    variables = {
        "EVENFLOW_STORE": "memory",
        "EVENFLOW_HTTP_PORT": str(http_port),
        "EVENFLOW_WS_PORT": str(ws_port),
        "EVENFLOW_TOKEN_KEYS_SECRET": SIGNING_KEYS,
        "EVENFLOW_TENANT_KEYS_SECRET": secret,
    }
    for name, value in (aws.environment | variables).items():
        monkeypatch.setenv(name, value)
    settings, metrics = load_settings(), Metrics()
    async with open_adapters(settings, metrics) as adapters:
        handler = Handler(settings, asyncio.get_running_loop(), metrics, adapters, lambda: None)
        await handler.start()
        try:
            yield handler, f"http://127.0.0.1:{http_port}"
        finally:
            await handler.stop()


async def _models(http: aiohttp.ClientSession, url: str, key: str) -> int:
    return (await call(http, "GET", f"{url}/v1/models", headers={"Authorization": f"Bearer {key}"})).status
