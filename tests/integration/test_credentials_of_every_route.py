"""Every route with every bad credential: each is refused, by a code of its own.

A row is a route, a column is a credential. A route that is in no row fails the first test.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

import aiohttp
import pytest

from evenflow.stream_core.policy.channel import Channel
from evenflow.stream_core.policy.session_token import SessionTokens
from evenflow.stream_core.protocol import routes
from evenflow.stream_core.protocol.routes import ROUTES, Route
from evenflow.stream_core.tenants.tenant import ApiKey, Scope, Tenant
from tests.identity_provider import make_key
from tests.integration.chat_client import HttpAnswer, call, chat_message, demo
from tests.integration.conftest import Serve
from tests.integration.issuer_server import IssuerServer
from tests.integration.local_server import LocalServer

SIGNING_KEY = b"signing-key-0123456789-0123456789"
TOKENS = SessionTokens({"k1": SIGNING_KEY})
OTHERS = SessionTokens({"k1": b"somebody-else's-key-0123456789-01"})
KEY, READS_ONLY, OPENS_ONLY = "evf_all", "evf_read", "evf_sessions"
ACME = Tenant(
    id="acme",
    keys=(
        ApiKey.of_text("all", KEY),
        ApiKey.of_text("reads", READS_ONLY, scopes=frozenset([Scope.READ])),
        ApiKey.of_text("opens", OPENS_ONLY, scopes=frozenset([Scope.SESSIONS])),
        ApiKey.of_text("old", "evf_old", expires_at=1.0),
    ),
    origins=("https://acme.example",),
)
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class Kind(Enum):
    """What a route needs."""

    NOTHING = auto()
    """Documents, the page, and what only the own machine asks."""
    OPENS = auto()
    """A tenant's key to open a session."""
    ASKS = auto()
    """A tenant's key or a token to ask a model, or to change what it answers."""
    READS = auto()
    """A tenant's key or a token to read."""
    SESSION = auto()
    """A session's token."""


class World(NamedTuple):
    """A server, an identity provider, and what a session of `acme` has at that server."""

    server: LocalServer
    issuer: IssuerServer
    session: Channel
    response_id: str
    public_id: str

    def token(self, session: Channel | None = None, *, age: float = 0.0) -> str:
        """A session's token."""
        return TOKENS.issue(session or self.session, time.time() - age, 60)[0]


@dataclass(frozen=True)
class Row:
    """A route, and a call of it that would be answered.

    Args:
        not_found: the code for who names what another has. None: it names nothing.
        names: of its path, by what the world has.
    """

    route: Route
    kind: Kind
    body: Any = None
    not_found: str | None = None
    names: Callable[[World], Mapping[str, str]] = field(default=lambda _: {})
    headers: Mapping[str, str] = field(default_factory=dict)


def _response(world: World) -> Mapping[str, str]:
    return {"response_id": world.response_id, "epoch": "1", "first": "0", "last": "0"}


def _public(world: World) -> Mapping[str, str]:
    return {"response_id": world.public_id}


def _session(world: World) -> Mapping[str, str]:
    return {"session_id": world.session.session}


def _chat(_: World) -> Mapping[str, str]:
    return {"chat_id": "c1"}


_NO_RESPONSE = "response_not_found"
_SAID = [{"role": "user", "content": demo(tokens=2)}]
_UI = [{"id": "1", "role": "user", "parts": [{"type": "text", "text": demo(tokens=2)}]}]
_RUN = {"threadId": "t", "runId": "r"}
_RUN_BODY = {**_RUN, "messages": [{"id": "1", **_SAID[0]}], "tools": [], "context": [], "state": {}}
_MESSAGE = chat_message("m2", "m1", demo(tokens=2))
ROWS = (
    Row(routes.OPEN_SESSION, Kind.OPENS, {"tenant": "acme"}),
    Row(routes.MESSAGES, Kind.SESSION, not_found="session_not_found", names=_session),
    Row(routes.END_SESSION, Kind.SESSION, not_found="session_not_found", names=_session),
    Row(routes.SHARE, Kind.SESSION, {}, not_found="session_not_found", names=_session),
    Row(routes.POST_MESSAGE, Kind.SESSION, _MESSAGE),
    Row(routes.EVENTS, Kind.SESSION, not_found=_NO_RESPONSE, names=_response),
    Row(routes.PRESENCE, Kind.SESSION, not_found=_NO_RESPONSE, names=_response),
    Row(routes.ENTRIES, Kind.SESSION, not_found=_NO_RESPONSE, names=_response),
    Row(routes.CANCEL, Kind.SESSION, not_found=_NO_RESPONSE, names=_response),
    Row(
        routes.TOOL_RESULT,
        Kind.SESSION,
        {"call_id": "c", "text": "x"},
        not_found=_NO_RESPONSE,
        names=_response,
    ),
    Row(routes.POLL, Kind.SESSION, not_found=_NO_RESPONSE, names=_response),
    Row(routes.STREAM, Kind.SESSION, not_found=_NO_RESPONSE, names=_response),
    Row(routes.WEBSOCKET, Kind.SESSION, headers=UPGRADE),
    Row(routes.REALTIME, Kind.SESSION, headers=UPGRADE),
    Row(routes.OPENAI_REALTIME, Kind.SESSION, headers=UPGRADE),
    Row(routes.COMPLETIONS, Kind.ASKS, {"model": "demo", "messages": _SAID}),
    Row(routes.LIST_MODELS, Kind.READS),
    Row(routes.USAGE, Kind.READS),
    Row(routes.GET_MODEL, Kind.READS, names=lambda _: {"model": "demo"}),
    Row(routes.CREATE_RESPONSE, Kind.ASKS, {"model": "demo", "input": demo(tokens=2)}),
    Row(routes.RESPONSES_WEBSOCKET, Kind.ASKS, headers=UPGRADE),
    Row(routes.GET_RESPONSE, Kind.READS, not_found=_NO_RESPONSE, names=_public),
    Row(routes.DELETE_RESPONSE, Kind.ASKS, not_found=_NO_RESPONSE, names=_public),
    Row(routes.CANCEL_RESPONSE, Kind.ASKS, not_found=_NO_RESPONSE, names=_public),
    Row(routes.INPUT_ITEMS, Kind.READS, not_found=_NO_RESPONSE, names=_public),
    Row(
        routes.ANTHROPIC_MESSAGES,
        Kind.ASKS,
        {"model": "demo", "max_tokens": 9, "messages": _SAID},
    ),
    Row(routes.CHAT, Kind.ASKS, {"id": "c1", "messages": _UI}),
    Row(routes.CHAT_MESSAGES, Kind.READS, names=_chat),
    Row(routes.CHAT_STREAM, Kind.READS, names=_chat),
    Row(routes.CHAT_STOP, Kind.ASKS, names=_chat),
    Row(routes.RUN, Kind.ASKS, _RUN_BODY),
    Row(routes.RUN_STOP, Kind.ASKS, _RUN),
    *(
        Row(route, Kind.NOTHING)
        for route in (
            *(routes.OPENAPI, routes.ASYNCAPI),
            *(routes.INDEX, routes.ASSET, routes.CLIENT_MODULE, routes.ELEMENT_MODULE),
            *(routes.HEALTH, routes.METRICS, routes.DRAIN),
        )
    ),
)

Refusal = tuple[int, str]


class Column(NamedTuple):
    """A credential, and how the routes of each kind refuse it. A kind that takes it is left out.

    Args:
        headers: what a call of a row brings.
        named: it is good, and another's: only who names something is refused.
    """

    headers: Callable[[World, Row], Mapping[str, str]]
    refusals: Mapping[Kind, Refusal]
    named: bool = False


def bearing(make: Callable[[World], str]) -> Callable[[World, Row], Mapping[str, str]]:
    return lambda world, _: {"Authorization": f"Bearer {make(world)}"}


def _good(world: World, row: Row) -> str:
    return world.token() if row.kind is Kind.SESSION else KEY


def _elsewhere(world: World, row: Row) -> Mapping[str, str]:
    bearer = f"Bearer {_good(world, row)}"
    return {"Authorization": bearer, "Origin": "https://evil.example"}


def _other_tenant(world: World, row: Row) -> Mapping[str, str]:
    same_name = world.session._replace(tenant="globex", session="another")
    by_session = row.kind is Kind.SESSION
    token = world.token(same_name) if by_session else world.issuer.now_token(org="globex")
    return {"Authorization": f"Bearer {token}"}


def _of_provider(code: str, status: int = 401) -> Mapping[Kind, Refusal]:
    return {
        **dict.fromkeys((Kind.OPENS, Kind.ASKS, Kind.READS), (status, code)),
        Kind.SESSION: (401, "token_invalid"),
    }


def _of_nobody(token: str) -> Mapping[Kind, Refusal]:
    return {
        Kind.OPENS: (401, "tenant_key_invalid"),
        Kind.ASKS: (401, "invalid_api_key"),
        Kind.READS: (401, "invalid_api_key"),
        Kind.SESSION: (401, token),
    }


_SCOPE = (403, "key_scope")
_GUARDED = (Kind.OPENS, Kind.ASKS, Kind.READS, Kind.SESSION)
_NO_TOKEN = {Kind.SESSION: (401, "token_invalid")}
COLUMNS = {
    "none": Column(lambda *_: {}, _of_nobody("token_missing")),
    "wrong key": Column(bearing(lambda _: "evf_wrong"), _of_nobody("token_invalid")),
    "expired key": Column(bearing(lambda _: "evf_old"), _of_nobody("token_invalid")),
    "key to read": Column(
        bearing(lambda _: READS_ONLY), {Kind.OPENS: _SCOPE, Kind.ASKS: _SCOPE, **_NO_TOKEN}
    ),
    "key to open": Column(
        bearing(lambda _: OPENS_ONLY), {Kind.ASKS: _SCOPE, Kind.READS: _SCOPE, **_NO_TOKEN}
    ),
    "forged session": Column(
        bearing(lambda world: OTHERS.issue(world.session, time.time(), 60)[0]),
        _of_nobody("token_invalid"),
    ),
    "expired session": Column(
        bearing(lambda world: world.token(age=61)),
        dict.fromkeys((Kind.ASKS, Kind.READS, Kind.SESSION), (401, "token_expired"))
        | {Kind.OPENS: (401, "tenant_key_invalid")},
    ),
    "forged": Column(
        bearing(lambda world: world.issuer.now_token(signed_by=make_key("RS256"))),
        _of_provider("identity_token_invalid"),
    ),
    "expired": Column(
        bearing(lambda world: world.issuer.now_token(exp=time.time() - 61)),
        _of_provider("identity_token_expired"),
    ),
    "wrong audience": Column(
        bearing(lambda world: world.issuer.now_token(aud="another")),
        _of_provider("identity_token_audience"),
    ),
    "wrong issuer": Column(
        bearing(lambda world: world.issuer.now_token(iss="http://127.0.0.1:1")),
        _of_provider("identity_token_issuer"),
    ),
    "algorithm none": Column(
        bearing(lambda world: world.issuer.unsigned(time.time())),
        _of_provider("identity_token_algorithm"),
    ),
    "no tenant's name": Column(
        bearing(lambda world: world.issuer.now_token(org="no:name")),
        _of_provider("identity_claim_invalid", 403),
    ),
    "another page": Column(
        _elsewhere,
        dict.fromkeys(_GUARDED, (403, "origin_not_allowed")),
    ),
    "another tenant": Column(_other_tenant, {}, named=True),
}


def test_every_route_is_in_one_row() -> None:
    assert sorted(str(row.route) for row in ROWS) == sorted(map(str, ROUTES))


@pytest.fixture
def issuer() -> Iterator[IssuerServer]:
    running = IssuerServer()
    yield running
    running.stop()


@pytest.fixture
async def world(serve: Serve, issuer: IssuerServer, http: aiohttp.ClientSession) -> World:
    server = await serve(
        issuer.environment(tenant_claim="org"), token_keys=f"k1:{SIGNING_KEY.decode()}"
    )
    server.handler._tenants.replace([ACME, Tenant(id="globex")])
    world = World(server, issuer, Channel("acme", "demo", "mine"), "", "")
    by_session, by_key = world.token(), KEY
    said = await _called(
        http, world, routes.POST_MESSAGE, by_session, chat_message("m1", None, demo(tokens=2))
    )
    body = {"model": "demo", "input": demo(tokens=2)}
    made = await _called(http, world, routes.CREATE_RESPONSE, by_key, body)
    return world._replace(response_id=said["response_id"], public_id=made["id"])


async def _called(
    http: aiohttp.ClientSession, world: World, route: Route, credential: str, body: object
) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {credential}"}
    url = f"{world.server.http_url}{route.path}"
    answer = await call(http, route.method, url, json.dumps(body).encode(), headers=headers)
    assert answer.status < 300, answer.body
    return answer.json


async def _tried(
    http: aiohttp.ClientSession, world: World, row: Row, headers: Mapping[str, str]
) -> HttpAnswer:
    body = None if row.body is None else json.dumps(row.body).encode()
    url = f"{world.server.http_url}{row.route.with_names(**row.names(world))}"
    sent = {"Content-Type": "application/json", **row.headers, **headers}
    async with http.request(row.route.method, url, data=body, headers=sent) as answer:
        # A WebSocket that is accepted has no end.
        read = b"" if answer.status == 101 else await answer.read()
        return HttpAnswer(answer.status, answer.headers, read)


def _expected(column: Column, row: Row) -> Refusal | None:
    if column.named:
        return None if row.not_found is None else (404, row.not_found)
    return column.refusals.get(row.kind)


@pytest.mark.parametrize("name", COLUMNS)
async def test_a_bad_credential_is_refused_by_every_route(
    world: World, http: aiohttp.ClientSession, name: str
) -> None:
    column, wrong = COLUMNS[name], dict[str, object]()
    rows = [row for row in ROWS if _expected(column, row) is not None]
    assert rows
    for row in rows:
        answer = await _tried(http, world, row, column.headers(world, row))
        code = answer.json["error"]["code"] if answer.status >= 400 else None
        if (answer.status, code) != _expected(column, row):
            wrong[f"{row.route.method} {row.route.path}"] = answer.status, code
        if row.route is routes.ANTHROPIC_MESSAGES:
            assert answer.json["type"] == "error"
    assert wrong == {}


async def test_what_the_rows_ask_is_answered_to_a_good_credential(
    world: World, http: aiohttp.ClientSession
) -> None:
    """Otherwise a row might be refused for another reason. The end of the session comes last."""
    last = (routes.DELETE_RESPONSE, routes.END_SESSION)
    rows = sorted((row for row in ROWS if row.kind is not Kind.NOTHING), key=_is_in(last))
    for row in rows:
        headers = {"Authorization": f"Bearer {_good(world, row)}"}
        answer = await _tried(http, world, row, headers)
        if row.route is routes.TOOL_RESULT:
            assert answer.error["code"] == "call_not_open", "an answer of text alone has no call"
            continue
        assert answer.status in (101, 200, 201, 202, 204), (row.route, answer.body)


def _is_in(last: tuple[Route, ...]) -> Callable[[Row], bool]:
    return lambda row: row.route in last
