"""A tenant's models, agents and pages, by every protocol that names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from evenflow.stream_core.http import routes
from evenflow.stream_core.http.routes import Route
from evenflow.stream_core.tenants.tenant import ApiKey, Tenant
from tests.integration.chat_client import HttpAnswer, call, demo
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer

KEY = "evf_acme"
ACME = Tenant(
    id="acme",
    keys=(ApiKey.of_text("k1", KEY),),
    models=("small",),
    agents=("helper",),
    origins=("https://acme.example",),
)
_SAID = [{"role": "user", "content": demo(tokens=2)}]
_PARTS = [{"id": "1", "role": "user", "parts": [{"type": "text", "text": demo(tokens=2)}]}]
_RUN = {"messages": [{"id": "1", **_SAID[0]}], "tools": [], "context": [], "state": {}}


def body_of(route: Route, model: str) -> dict[str, Any]:
    """A request that names a model."""
    bodies: dict[Route, dict[str, Any]] = {
        routes.COMPLETIONS: {"model": model, "messages": _SAID},
        routes.CREATE_RESPONSE: {"model": model, "input": demo(tokens=2)},
        routes.ANTHROPIC_MESSAGES: {"model": model, "max_tokens": 9, "messages": _SAID},
        routes.CHAT: {"id": model, "messages": _PARTS, "model": model},
        routes.RUN: {"threadId": "t", "runId": model, "forwardedProps": {"model": model}, **_RUN},
    }
    return bodies[route]


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    agents: dict[str, dict[str, str]] = {"helper": {}, "default": {}, "secret": {}}
    server = await serve(models="small=,large=", agents_json=json.dumps(agents))
    server.handler._tenants.replace([ACME])
    return server


async def asked(
    http: aiohttp.ClientSession,
    server: LocalServer,
    route: Route,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    **names: str,
) -> HttpAnswer:
    url = f"{server.http_url}{route.with_names(**names)}"
    sent = {"Authorization": f"Bearer {KEY}", **(headers or {})}
    return await call(http, route.method, url, body, headers=sent)


@pytest.mark.parametrize(
    "route",
    [
        *(routes.COMPLETIONS, routes.CREATE_RESPONSE, routes.ANTHROPIC_MESSAGES),
        *(routes.CHAT, routes.RUN),
    ],
    ids=lambda route: route.path,
)
async def test_another_model_is_as_unknown_as_one_that_is_not_there(
    server: LocalServer, http: aiohttp.ClientSession, route: Route
) -> None:
    assert (await asked(http, server, route, body_of(route, "small"))).status == 200
    refused = [await asked(http, server, route, body_of(route, name)) for name in ("large", "none")]
    told = [(answer.status, answer.json["error"]["code"]) for answer in refused]
    assert told == [(404, "model_not_found")] * 2


async def test_only_the_tenants_models_are_listed(
    server: LocalServer, http: aiohttp.ClientSession
) -> None:
    listed = await asked(http, server, routes.LIST_MODELS)
    assert [model["id"] for model in listed.json["data"]] == ["small"]
    assert (await asked(http, server, routes.GET_MODEL, model="small")).status == 200
    other = await asked(http, server, routes.GET_MODEL, model="large")
    assert (other.status, other.error["code"]) == (404, "model_not_found")


async def test_sessions_are_of_the_tenants_agents(
    server: LocalServer, http: aiohttp.ClientSession
) -> None:
    opened = await asked(http, server, routes.OPEN_SESSION, {"tenant": "acme"})
    assert (opened.status, opened.json["agent"]) == (201, "helper")
    other = await asked(http, server, routes.OPEN_SESSION, {"tenant": "acme", "agent": "secret"})
    assert (other.status, other.error["code"]) == (404, "agent_not_found")
    assert other.error["message"].endswith("one of: helper")


async def test_pages_of_the_tenant_and_of_the_server_may_use_its_key(
    server: LocalServer, http: aiohttp.ClientSession
) -> None:
    for origin in ("https://acme.example", server.http_url):
        answer = await asked(http, server, routes.LIST_MODELS, headers={"Origin": origin})
        assert answer.status == 200
