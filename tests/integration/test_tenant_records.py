"""Records of tenants in a running server: what an administrator changes is in force within five
seconds, without a restart.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from evenflow.fargate_handler.adapters import Stores, memory_stores
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.tenant import ApiKey, Scope, Tenant
from evenflow.stream_core.tenants.tenant_store import TenantStore
from evenflow.stream_sqlite.file import connect, prepare
from tests.integration.chat_client import call
from tests.integration.conftest import Serve
from tests.integration.deployment import AwsDeployment
from tests.integration.local_server import LocalServer, refusal

FIRST, SECOND, GIVEN = "evf_1_first", "evf_2_second", "given-key-0123456789"
ACME = Tenant(id="acme", keys=(ApiKey.of_text("k1", FIRST),))
SEEN_SECONDS = 5.0


@pytest.fixture
def stores() -> Stores:
    return memory_stores()


@pytest.fixture
def records(stores: Stores) -> TenantStore:
    """As an administrator has it."""
    assert stores.tenants is not None
    return stores.tenants


class Asking:
    """Asks a server for sessions."""

    def __init__(self, http: aiohttp.ClientSession, server: LocalServer) -> None:
        self._http = http
        self._server = server

    async def status(self, tenant: str | None, key: str | None = None) -> int:
        """The status of POST /session."""
        answer = await call(
            self._http,
            "POST",
            f"{self._server.http_url}/session",
            {} if tenant is None else {"tenant": tenant},
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
        )
        return answer.status


async def test_an_added_tenant_and_a_rotated_key_are_seen_within_five_seconds(
    serve: Serve, stores: Stores, records: TenantStore, http: aiohttp.ClientSession
) -> None:
    server = await serve(stores=stores)
    asking = Asking(http, server)
    assert await asking.status("acme") == 201  # nobody has a key, so nobody needs one

    await records.put(ACME, 0)
    await serve.time_passes(SEEN_SECONDS)
    assert await asking.status("acme") == 401
    assert await asking.status("other") == 401
    assert await asking.status("public") == 401
    assert await asking.status("acme", FIRST) == 201

    until = serve.time.wall() + 60
    rotated = ACME.model_copy(
        update={
            "keys": (
                ACME.keys[0].model_copy(update={"expires_at": until}),
                ApiKey.of_text("k2", SECOND),
            )
        }
    )
    await records.put(rotated, 1)
    await serve.time_passes(SEEN_SECONDS)
    assert [await asking.status("acme", key) for key in (FIRST, SECOND)] == [201, 201]
    await serve.time_passes(60 - SEEN_SECONDS + 1)
    assert [await asking.status("acme", key) for key in (FIRST, SECOND)] == [401, 201]

    await records.delete("acme", 2)
    await serve.time_passes(SEEN_SECONDS)
    for key in (SECOND, None):
        assert await asking.status("acme", key) == 401
    assert await asking.status("public") == 401, "nobody has a key, and the server stays closed"
    again = await serve(stores=stores)
    assert await Asking(http, again).status("public") == 401, "after a restart, too"

    await records.put(Tenant(id="public", open=True), 3)
    await serve.time_passes(SEEN_SECONDS)
    assert [await asking.status(name) for name in ("public", "acme")] == [201, 401]


async def test_records_are_there_when_a_node_starts_beside_the_given_keys(
    serve: Serve, stores: Stores, records: TenantStore, http: aiohttp.ClientSession
) -> None:
    await records.put(ACME, 0)
    asking = Asking(http, await serve(stores=stores, tenant_keys=json.dumps({"globex": GIVEN})))
    assert await asking.status("acme", FIRST) == 201
    assert await asking.status("globex", GIVEN) == 201
    assert await asking.status("acme", GIVEN) == 401
    await records.delete("acme", 1)
    await serve.time_passes(SEEN_SECONDS)
    assert await asking.status("acme", FIRST) == 401
    assert await asking.status("globex", GIVEN) == 201


async def test_a_store_that_fails_leaves_what_is_in_force_and_is_told_once(
    serve: Serve,
    stores: Stores,
    records: TenantStore,
    http: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await records.put(ACME, 0)
    server = await serve(stores=stores)
    asking = Asking(http, server)

    async def fail() -> int:
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as failing:
        failing.setattr(records, "revision", fail)
        await records.delete("acme", 1)
        await serve.time_passes(3 * SEEN_SECONDS)
        assert await asking.status("acme", FIRST) == 201
        assert await asking.status("acme") == 401
    assert server.log.count("the tenants stay as they are: the disk is full") == 1
    await serve.time_passes(SEEN_SECONDS)
    assert await asking.status("acme", FIRST) == 401


async def test_a_node_that_cannot_read_the_records_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "evenflow.db"
    variables = {"EVENFLOW_STORE": "sqlite", "EVENFLOW_STORE_PATH": str(path)}
    prepare(path)
    with closing(connect(path)) as connection:
        connection.execute("DROP TABLE tenants")
    assert "no such table: tenants" in await refusal(variables)


async def test_tasks_on_tables_see_the_records_of_the_table(
    aws_deployment: AwsDeployment, http: aiohttp.ClientSession, serve: Serve
) -> None:
    one, other = await aws_deployment.handlers(2)
    store = one.handler._adapters.stores.tenants
    assert store is not None
    await store.put(ACME, 0)
    await serve.time_passes_until(_sees(http, other, FIRST))
    key_of_api = Tenant(
        id="acme", keys=(ApiKey.of_text("k2", SECOND, scopes=frozenset({Scope.API})),)
    )
    await store.put(key_of_api, 1)
    await serve.time_passes_until(_sees(http, other, SECOND))
    assert await Asking(http, other).status("acme", FIRST) == 401


async def _sees(http: aiohttp.ClientSession, server: LocalServer, key: str) -> None:
    while server.handler._tenants.with_key(key, 0.0) is None:
        await Asking(http, server).status(None)
