"""The handler reads its keys, and the tenants', again every few minutes: a change logs nobody
out and needs no restart.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from evenflow.fargate_handler.adapters import Adapters, memory_stores
from evenflow.fargate_handler.node import Node
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.stream_aws.key_secret import KeySecret
from evenflow.stream_aws.keys import parse_signing_keys, parse_tenant_keys
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import AuthenticationFailed

OLD, NEW = "old-" * 10, "new-" * 10
CHANNEL = Channel("t", "demo", "s")


class SecretsManager:
    """A client with one secret."""

    def __init__(self, keys: dict[str, str]) -> None:
        self.secret = json.dumps(keys)
        self.failure: Exception | None = None
        self.reads = 0

    async def get_secret_value(self, **_request: str) -> dict[str, Any]:
        self.reads += 1
        if self.failure is not None:
            raise self.failure
        return {"SecretString": self.secret}


class NodeUnderTest:
    """A handler that does not listen, and whose clock is turned by hand."""

    def __init__(self, client: SecretsManager, tenants: SecretsManager) -> None:
        self.client = client
        self.tenants = tenants
        adapters = Adapters(
            {"k1": OLD.encode()},
            memory_stores(),
            KeySecret(client, "signing-keys", parse_signing_keys),
            {"acme": OLD},
            KeySecret(tenants, "tenant-keys", parse_tenant_keys),
        )
        self._now = 1000.0
        self.handler = Node(
            HandlerSettings(),
            asyncio.get_running_loop(),
            Metrics(),
            adapters,
            lambda: None,
            monotonic=lambda: self._now,
        )

    async def seconds(self, count: int) -> None:
        """So many pass, and the handler has its turn every ten."""
        for _ in range(0, count, 10):
            self._now += 10.0
            self.handler.on_due(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    def opens(self, key: str, kid: str) -> bool:
        """Whether a token of this key is let in."""
        token, _ = SessionTokens({kid: key.encode()}).issue(CHANNEL, 0.0, 3600)
        try:
            return self.handler._tokens.verify(token, 1.0).channel == CHANNEL
        except AuthenticationFailed:
            return False

    def tenant_of(self, key: str) -> str | None:
        """Whose key this is."""
        known = self.handler._tenants.with_key(key, 0.0)
        return None if known is None else known.tenant.id


@pytest.fixture
async def node() -> AsyncIterator[NodeUnderTest]:
    client = SecretsManager({"k1": OLD})
    node = NodeUnderTest(client, SecretsManager({"acme": OLD}))
    yield node
    await node.handler.stop()


async def test_new_keys_are_in_force_within_minutes_for_every_part(node: NodeUnderTest) -> None:
    node.client.secret = json.dumps({"k2": NEW, "k1": OLD})
    await node.seconds(250)
    assert (node.client.reads, node.opens(NEW, "k2")) == (0, False)
    await node.seconds(100)
    assert (node.client.reads, node.opens(NEW, "k2"), node.opens(OLD, "k1")) == (1, True, True)
    # The first signs.
    token, _ = node.handler._tokens.issue(CHANNEL, 0.0, 3600)
    assert SessionTokens({"k2": NEW.encode()}).verify(token, 1.0)
    node.client.secret = json.dumps({"k2": NEW})
    await node.seconds(300)
    assert (node.client.reads, node.opens(OLD, "k1")) == (2, False)


@pytest.mark.parametrize(
    "failure",
    [
        ClientError(
            {"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetSecretValue"
        ),
        EndpointConnectionError(endpoint_url="https://secretsmanager"),
        ValueError("a bug"),
    ],
)
async def test_keys_that_cannot_be_read_leave_the_old_ones_in_force(
    node: NodeUnderTest, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    node.client.failure = failure
    await node.seconds(310)
    assert node.client.reads == 1
    assert node.opens(OLD, "k1")
    assert "the signing keys stay as they are" in caplog.text
    node.client.failure = None
    node.client.secret = json.dumps({"k2": NEW})
    await node.seconds(310)
    assert node.opens(NEW, "k2")


@pytest.mark.parametrize(
    "secret", ["", "{", "{}", "[]", '{"k1": "short"}', f'{{"k1": "{NEW}", "k1": "{OLD}"}}']
)
async def test_a_secret_that_is_none_leaves_the_old_ones_in_force_and_is_not_logged(
    node: NodeUnderTest, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    node.client.secret = secret
    await node.seconds(310)
    assert (node.client.reads, node.opens(OLD, "k1")) == (1, True)
    assert "the signing keys stay as they are" in caplog.text
    assert NEW not in caplog.text


async def test_the_tenants_keys_are_read_again_too(node: NodeUnderTest) -> None:
    node.tenants.secret = json.dumps({"acme": NEW, "zeta": OLD})
    await node.seconds(250)
    assert (node.tenants.reads, node.tenant_of(OLD)) == (0, "acme")
    await node.seconds(100)
    assert (node.tenants.reads, node.tenant_of(NEW), node.tenant_of(OLD)) == (1, "acme", "zeta")


@pytest.mark.parametrize("secret", ["", "[]", '{"acme": "short"}', f'{{"Acme Limited": "{NEW}"}}'])
async def test_tenants_keys_that_cannot_be_read_leave_the_old_ones_in_force(
    node: NodeUnderTest, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    node.tenants.secret = secret
    node.client.secret = json.dumps({"k2": NEW})
    await node.seconds(310)
    assert (node.tenants.reads, node.tenant_of(OLD)) == (1, "acme")
    assert "the tenant keys stay as they are" in caplog.text
    assert NEW not in caplog.text
    assert node.opens(NEW, "k2"), "the other secret is read all the same"


async def test_a_node_with_keys_of_its_own_reads_none() -> None:
    adapters = Adapters({"k1": OLD.encode()}, memory_stores())
    handler = Node(HandlerSettings(), asyncio.get_running_loop(), Metrics(), adapters, lambda: None)
    handler._keys._keys_due_at = 0.0
    handler.on_due(0)
    await asyncio.sleep(0)
    assert handler._background._tasks == set()
    await handler.stop()
