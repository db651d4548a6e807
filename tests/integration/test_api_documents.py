"""The OpenAPI and AsyncAPI documents: what is served is valid by the standards' own schemas, and
names all that there is.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from jsonschema import Draft7Validator
from openapi_spec_validator import validate

from docs.error_texts import ERROR_TEXTS
from evenflow.fargate_handler.gateway.http_endpoints import HttpEndpoints
from evenflow.fargate_handler.gateway.operator_endpoints import OperatorEndpoints
from evenflow.fargate_handler.gateway.websocket_endpoint import WebSocketEndpoint
from evenflow.stream_core.api_documents.asyncapi import asyncapi_document
from evenflow.stream_core.api_documents.http_operations import OPERATIONS
from evenflow.stream_core.api_documents.openapi import openapi_document
from evenflow.stream_core.api_documents.websocket_endpoints import CLOSE_CODES
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.node_load import LoadFigure
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from tests.integration.chat_client import call
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer
from tests.integration.server_process import ROOT
from tests.unit.fargate_handler.gateway.client_harness import Gateway

_SPECS = Path(__file__).parent / "asyncapi_specs"
# The page is no part of the contract, nor are calls of other APIs, which are refused; one is for
# the task's own machine.
_NOT_DESCRIBED = {
    "/",
    "/assets/{name}",
    "/client.js",
    "/evenflow-chat.js",
    "/drain",
    "/operator",
    "/v1/{call}{rest}",
    "/v1/messages/{rest}",
}
_IN_FRAMES_ONLY = {"unknown_type", "too_slow", "realtime_not_served"}
# The web ACL says it, before a request comes here.
_OF_THE_FIREWALL = {"address_rate"}


@pytest.fixture(scope="module")
def asyncapi_schema() -> dict[str, Any]:
    """AsyncAPI 3.0's own."""
    path = _SPECS / "node_modules" / "@asyncapi" / "specs" / "schemas" / "3.0.0-without-$id.json"
    if not path.is_file():
        assert shutil.which("npm"), "this test needs Node.js with npm; nothing was tested"
        subprocess.run(
            ["npm", "ci", "--silent", "--no-audit", "--no-fund"],
            cwd=_SPECS,
            check=True,
            timeout=110,
        )
    schema: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return schema


async def document(http: aiohttp.ClientSession, server: LocalServer, name: str) -> dict[str, Any]:
    answer = await call(http, "GET", f"{server.http_url}/{name}.json")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.headers["Cache-Control"] == "public, max-age=3600"
    assert "Set-Cookie" not in answer.headers, "what may be cached is the same for everybody"
    return answer.json


async def test_the_openapi_document_is_valid(
    http: aiohttp.ClientSession, shared_server: LocalServer
) -> None:
    served = await document(http, shared_server, "openapi")
    validate(served)
    assert served == json.loads((ROOT / "docs" / "openapi.json").read_text("utf-8"))


async def test_the_asyncapi_document_is_valid(
    http: aiohttp.ClientSession, shared_server: LocalServer, asyncapi_schema: dict[str, Any]
) -> None:
    served = await document(http, shared_server, "asyncapi")
    assert list(Draft7Validator(asyncapi_schema).iter_errors(served)) == []
    assert served == json.loads((ROOT / "docs" / "asyncapi.json").read_text("utf-8"))


@pytest.mark.parametrize("spoil", ["channels", "operations", "info"])
def test_the_standards_schema_does_refuse(asyncapi_schema: dict[str, Any], spoil: str) -> None:
    assert not Draft7Validator(asyncapi_schema).is_valid({**asyncapi_document(Limits()), spoil: []})


@pytest.mark.parametrize("made", [openapi_document, asyncapi_document])
def test_every_reference_leads_somewhere(made: Any) -> None:
    whole = made(Limits())
    references = re.findall(r'"\$ref": "#/([^"]*)"', json.dumps(whole))
    assert references
    for reference in references:
        place = whole
        for name in reference.split("/"):
            place = place[name]


def test_every_route_is_described(tmp_path: Path) -> None:
    async def routes() -> set[tuple[str, str]]:
        context = Gateway().context
        operators = OperatorEndpoints(context, LoadFigure(context.limits, 0.0), lambda: None)
        endpoints = HttpEndpoints(context, tmp_path, operators, WebSocketEndpoint(context))
        return {
            (route.method.lower(), route.path)
            for route in endpoints._routes()
            if isinstance(route, web.RouteDef)
        }

    # A pattern in a route says which text a parameter takes.
    named = {
        (method, re.sub(r"\{(\w+):[^}]*\}", r"{\1}", path))
        for method, path in asyncio.run(routes())
    }
    there = {(method, path) for method, path in named if path not in _NOT_DESCRIBED}
    described = openapi_document(Limits())["paths"]
    assert there == {(method, path) for path, methods in described.items() for method in methods}


def test_every_error_code_of_the_reference_is_described() -> None:
    listed = {code for texts in ERROR_TEXTS.values() for code in texts}
    described = {
        code for operation in OPERATIONS for codes in operation.errors.values() for code in codes
    }
    assert described | {"method_not_allowed"} == listed - _IN_FRAMES_ONLY - _OF_THE_FIREWALL


def test_every_close_code_is_described() -> None:
    named = {value for name, value in vars(CloseCode).items() if name.isupper()} | {1011}
    table = (
        (ROOT / "docs" / "protocol.md")
        .read_text("utf-8")
        .partition("### Close codes")[2]
        .partition("###")[0]
    )
    assert (
        set(CLOSE_CODES)
        == named
        == {int(code) for code in re.findall(r"^\| (\d{4}) ", table, re.MULTILINE)}
    )


async def test_the_documents_say_the_limits_in_force(
    http: aiohttp.ClientSession, serve: Serve
) -> None:
    server = await serve(message_bytes=1000)
    for name in ("openapi", "asyncapi"):
        assert (await document(http, server, name))["x-limits"]["message_bytes"]["value"] == 1000
