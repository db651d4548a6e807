"""The file of the stores is deleted while a server uses it."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from evenflow.stream_core.tenants.tenant import ApiKey, Tenant, digest_of, new_key
from evenflow.stream_sqlite.stores import SQLiteStores
from tests.integration.chat_client import call, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "evenflow.db"


@pytest.fixture
async def server(serve: Serve, path: Path) -> LocalServer:
    return await serve(store="sqlite", store_path=path)


async def _health(http: aiohttp.ClientSession, server: LocalServer) -> tuple[int, str]:
    answer = await call(http, "GET", f"{server.http_url}/health")
    return answer.status, answer.json["status"]


async def _add_tenant(path: Path) -> str:
    key_id, key = new_key()
    tenant = Tenant(id="acme", keys=(ApiKey(id=key_id, digest=digest_of(key)),))
    with closing(SQLiteStores(path, time.time)) as stores:
        await stores.tenants.put(tenant, 0)
    return key


async def test_it_says_so_once_and_takes_nothing_new(
    http: aiohttp.ClientSession, opened: OpenSession, server: LocalServer, serve: Serve, path: Path
) -> None:
    session = await opened(server)
    await serve.time_passes(2)
    assert await _health(http, server) == (200, "serving")
    shutil.rmtree(path.parent)
    await serve.time_passes(2)
    assert await _health(http, server) == (503, "store_lost")
    refused = await session.post("m1", None, demo(tokens=3, gap_ms=1))
    assert (refused.status, refused.error["code"]) == (503, "store_unavailable")
    await serve.time_passes(30)
    assert server.log.count("deleted or replaced while in use; until there is a file again") == 1
    warnings = [line for line in server.log.splitlines() if "WARNING" in line or "ERROR" in line]
    assert len(warnings) < 6, "not a line a second"


async def test_another_file_is_used_with_its_tenants_and_its_key(
    http: aiohttp.ClientSession, opened: OpenSession, server: LocalServer, serve: Serve, path: Path
) -> None:
    session = await opened(server)
    await serve.time_passes(2)
    shutil.rmtree(path.parent)
    await serve.time_passes(2)
    key = await _add_tenant(path)
    await serve.time_passes(5)
    assert await _health(http, server) == (200, "serving")
    body = {"model": "demo", "messages": [{"role": "user", "content": demo(tokens=2, gap_ms=1)}]}
    url = f"{server.http_url}/v1/chat/completions"
    assert (await call(http, "POST", url, body)).status == 401
    bearer = {"Authorization": f"Bearer {key}"}
    assert (await call(http, "POST", url, body, headers=bearer)).status == 200
    old = await session.post("m1", None, demo(tokens=3, gap_ms=1))
    assert old.status == 401, "its token was signed with a key that is gone"
