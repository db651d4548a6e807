"""Calls of other APIs under `/v1`: whoever makes one is told what there is."""

from __future__ import annotations

import json

import aiohttp
import openai
import pytest

from tests.integration.chat_client import call
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.conftest import openai_client


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    return await serve(tenant_keys=json.dumps({"acme": "acme-key-0123456789"}))


@pytest.mark.parametrize(
    ("method", "path", "named"),
    [
        ("POST", "/v1/messages/count_tokens", "`usage`"),
        ("GET", "/v1/messages/batches/b1", "POST /v1/messages"),
        ("GET", "/v1/messages/anything", "POST /v1/messages"),
        ("POST", "/v1/completions", "messages=["),
        ("POST", "/v1/embeddings", "/v1/chat/completions"),
    ],
)
async def test_whoever_asks_is_told_what_to_use(
    http: aiohttp.ClientSession, server: LocalServer, method: str, path: str, named: str
) -> None:
    body = b'{"model":"demo"}' if method == "POST" else None
    answer = await call(
        http, method, server.http_url + path, body, headers={"Authorization": "Bearer sk-wrong"}
    )
    assert (answer.status, answer.error["type"], answer.error["code"]) == (
        404,
        "not_found_error",
        "path_not_found",
    )
    assert named in answer.error["message"]


async def test_the_shape_is_that_of_the_client_s_api(
    http: aiohttp.ClientSession, server: LocalServer
) -> None:
    told = (
        await call(http, "POST", f"{server.http_url}/v1/messages/count_tokens", b"{}", headers={})
    ).json
    assert (told["type"], told["error"]["type"]) == ("error", "not_found_error")


@pytest.mark.parametrize("path", ["/v1/responses2", "/v1/x/responses", "/v1/chat/responses", "/v1"])
async def test_other_paths_are_as_they_were(
    http: aiohttp.ClientSession, server: LocalServer, path: str
) -> None:
    answer = await call(http, "GET", server.http_url + path, headers={})
    assert (answer.status, answer.error["message"]) == (404, f"there is no {path}")


async def test_openai_s_clients_show_it(server: LocalServer) -> None:
    async with openai_client(f"{server.http_url}/v1") as client:
        with pytest.raises(openai.NotFoundError, match="embeddings are not served"):
            await client.embeddings.create(model="demo", input="hello")
