"""Every route with every credential: each is refused as the table of calls in docs/limits.md says.

A row is a route, a column is a credential. A route that is in no row fails the first test.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
import pytest

from docs.route_table import CallerKind, Refusal, refusal
from evenflow.stream_core.auth.rights import Right
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.http import routes
from evenflow.stream_core.http.routes import ROUTES, Credential, Route
from evenflow.stream_core.tenants.tenant import ApiKey, Scope, Tenant
from tests.identity_provider import make_key
from tests.integration.chat_client import HttpAnswer, call, chat_message, demo
from tests.integration.conftest import Serve
from tests.integration.issuer_server import IssuerServer
from tests.integration.local_server import LocalServer

SIGNING_KEY = b"signing-key-0123456789-0123456789"
TOKENS = SessionTokens({"k1": SIGNING_KEY})
OTHERS = SessionTokens({"k1": b"somebody-else's-key-0123456789-01"})
KEY, OTHER_KEY = "evf_all", "evf_other"
ACME = Tenant(
    id="acme",
    keys=(
        ApiKey.of_text("all", KEY),
        *(ApiKey.of_text(scope, f"evf_{scope}", scopes=frozenset([scope])) for scope in Scope),
        ApiKey.of_text("old", "evf_old", expires_at=1.0),
    ),
    origins=("https://acme.example",),
)
GLOBEX = Tenant(id="globex", keys=(ApiKey.of_text("all", OTHER_KEY),))
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class World(NamedTuple):
    """A server, an identity provider, and what a session of `acme` has at that server."""

    server: LocalServer
    issuer: IssuerServer
    session: Channel
    response_id: str
    of_key: str
    of_token: str

    def token(self, session: Channel | None = None, *, age: float = 0.0, **more: Any) -> str:
        """A session's token."""
        return TOKENS.issue(session or self.session, time.time() - age, 60, **more)[0]


@dataclass(frozen=True)
class Row:
    """A route, and a call of it that would be answered.

    Args:
        names: of its path, by what the world has.
    """

    route: Route
    body: Any = None
    names: Callable[[World], Mapping[str, str]] = field(default=lambda _: {})
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def credential(self) -> Credential:
        """What it needs."""
        return self.route.terms.credential

    @property
    def by_token(self) -> bool:
        """Whether only a session's token opens it."""
        return self.credential in (Credential.SESSION, Credential.READER)


def _response(world: World) -> Mapping[str, str]:
    return {"response_id": world.response_id, "epoch": "1", "first": "0", "last": "0"}


def _public(world: World) -> Mapping[str, str]:
    return {"response_id": world.of_key}


def _session(world: World) -> Mapping[str, str]:
    return {"session_id": world.session.session}


def _chat(_: World) -> Mapping[str, str]:
    return {"chat_id": "c1"}


_SAID = [{"role": "user", "content": demo(tokens=2)}]
_UI = [{"id": "1", "role": "user", "parts": [{"type": "text", "text": demo(tokens=2)}]}]
_RUN = {"threadId": "t", "runId": "r"}
_RUN_BODY = {**_RUN, "messages": [{"id": "1", **_SAID[0]}], "tools": [], "context": [], "state": {}}
_MESSAGE = chat_message("m2", "m1", demo(tokens=2))
ROWS = (
    Row(routes.OPEN_SESSION, {"tenant": "acme"}),
    Row(routes.MESSAGES, names=_session),
    Row(routes.END_SESSION, names=_session),
    Row(routes.SHARE, {}, names=_session),
    Row(routes.POST_MESSAGE, _MESSAGE),
    Row(routes.EVENTS, names=_response),
    Row(routes.PRESENCE, names=_response),
    Row(routes.ENTRIES, names=_response),
    Row(routes.CANCEL, names=_response),
    Row(routes.TOOL_RESULT, {"call_id": "c", "text": "x"}, names=_response),
    Row(routes.POLL, names=_response),
    Row(routes.STREAM, names=_response),
    Row(routes.WEBSOCKET, headers=UPGRADE),
    Row(routes.REALTIME, headers=UPGRADE),
    Row(routes.OPENAI_REALTIME, headers=UPGRADE),
    Row(routes.COMPLETIONS, {"model": "demo", "messages": _SAID}),
    Row(routes.LIST_MODELS),
    Row(routes.USAGE),
    Row(routes.GET_MODEL, names=lambda _: {"model": "demo"}),
    Row(routes.CREATE_RESPONSE, {"model": "demo", "input": demo(tokens=2)}),
    Row(routes.RESPONSES_WEBSOCKET, headers=UPGRADE),
    Row(routes.GET_RESPONSE, names=_public),
    Row(routes.DELETE_RESPONSE, names=_public),
    Row(routes.CANCEL_RESPONSE, names=_public),
    Row(routes.INPUT_ITEMS, names=_public),
    Row(routes.ANTHROPIC_MESSAGES, {"model": "demo", "max_tokens": 9, "messages": _SAID}),
    Row(routes.CHAT, {"id": "c1", "messages": _UI}),
    Row(routes.CHAT_MESSAGES, names=_chat),
    Row(routes.CHAT_STREAM, names=_chat),
    Row(routes.CHAT_STOP, names=_chat),
    Row(routes.RUN, _RUN_BODY),
    Row(routes.RUN_STOP, _RUN),
    *(
        Row(route)
        for route in (
            *(routes.OPENAPI, routes.ASYNCAPI),
            *(routes.INDEX, routes.ASSET, routes.CLIENT_MODULE, routes.ELEMENT_MODULE),
            *(routes.HEALTH, routes.METRICS, routes.DRAIN, routes.OPERATOR),
        )
    ),
)
GUARDED = tuple(
    row for row in ROWS if row.credential not in (Credential.NOTHING, Credential.OPERATOR)
)
_LAST = (routes.DELETE_RESPONSE, routes.END_SESSION)


def _bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


# -- the table of docs/limits.md -------------------------------------------------------------------

_RIGHTS = {
    CallerKind.MAY_READ: Right.READ,
    CallerKind.MAY_WRITE: Right.WRITE,
    CallerKind.MAY_CANCEL: Right.CANCEL,
}
_KEYS = {
    CallerKind.WRONG_KEY: "evf_wrong",
    CallerKind.EXPIRED_KEY: "evf_old",
    CallerKind.REMOVED_KEY: "evf_removed",
    CallerKind.KEY_TO_ASK: f"evf_{Scope.API}",
    CallerKind.KEY_TO_READ: f"evf_{Scope.READ}",
    CallerKind.KEY_TO_OPEN: f"evf_{Scope.SESSIONS}",
    CallerKind.OTHER_TENANT: OTHER_KEY,
}


def _headers_of(world: World, caller: CallerKind) -> Mapping[str, str]:
    """What a call shows."""
    if caller is CallerKind.NOTHING:
        return {}
    another = world.session._replace(session="another")
    tokens: Mapping[CallerKind, Mapping[str, Any]] = {
        CallerKind.SESSION: {},
        CallerKind.EXPIRED: {"age": 61},
        CallerKind.OTHER_SESSION: {"session": another},
        CallerKind.TICKET: {"only_for": world.response_id},
        CallerKind.OTHER_TICKET: {"only_for": "rsp_another"},
        **{caller: {"may": frozenset([right])} for caller, right in _RIGHTS.items()},
    }
    return _bearer(_KEYS[caller] if caller in _KEYS else world.token(**tokens[caller]))


@pytest.mark.parametrize("caller", CallerKind)
async def test_each_route_refuses_what_the_table_says_and_nothing_else(
    world: World, http: aiohttp.ClientSession, caller: CallerKind
) -> None:
    if caller not in _KEYS:
        world = world._replace(of_key=world.of_token)  # the response that its session has made
    wrong = dict[str, object]()
    for row in sorted(GUARDED, key=_is_in(_LAST)):
        expected = refusal(row.route, caller)
        answer = await _tried(http, world, row, _headers_of(world, caller))
        code = answer.json["error"]["code"] if answer.status >= 400 else None
        let_in = answer.status not in (401, 403)
        if (Refusal(answer.status, code or "") != expected) if expected else not let_in:
            wrong[f"{row.route.method} {row.route.path}"] = answer.status, code
    assert wrong == {}


def test_every_route_is_in_one_row() -> None:
    assert sorted(str(row.route) for row in ROWS) == sorted(map(str, ROUTES))


# -- credentials that are forged, or another's by the identity provider ----------------------------


class Column(NamedTuple):
    """A credential, and how the routes refuse it by what they need. What takes it is left out.

    Args:
        headers: what a call of a row brings.
        named: it is good, and another's: only who names something is refused.
    """

    headers: Callable[[World, Row], Mapping[str, str]]
    refusals: Mapping[Credential, tuple[int, str]]
    named: bool = False


def bearing(make: Callable[[World], str]) -> Callable[[World, Row], Mapping[str, str]]:
    return lambda world, _: _bearer(make(world))


def _good(world: World, row: Row) -> str:
    return world.token() if row.by_token else KEY


def _elsewhere(world: World, row: Row) -> Mapping[str, str]:
    return {**_bearer(_good(world, row)), "Origin": "https://evil.example"}


def _other_tenant(world: World, row: Row) -> Mapping[str, str]:
    same_name = world.session._replace(tenant="globex", session="another")
    token = world.token(same_name) if row.by_token else world.issuer.now_token(org="globex")
    return _bearer(token)


_BY_TOKEN = (Credential.SESSION, Credential.READER)


def _of_provider(code: str, status: int = 401) -> Mapping[Credential, tuple[int, str]]:
    return {
        **dict.fromkeys((Credential.OPENER, Credential.SENDER), (status, code)),
        **dict.fromkeys(_BY_TOKEN, (401, "token_invalid")),
    }


COLUMNS = {
    "forged session": Column(
        bearing(lambda world: OTHERS.issue(world.session, time.time(), 60)[0]),
        {
            Credential.OPENER: (401, "tenant_key_invalid"),
            Credential.SENDER: (401, "invalid_api_key"),
            **dict.fromkeys(_BY_TOKEN, (401, "token_invalid")),
        },
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
        dict.fromkeys(
            (Credential.OPENER, Credential.SENDER, *_BY_TOKEN), (403, "origin_not_allowed")
        ),
    ),
    "another tenant": Column(_other_tenant, {}, named=True),
}


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
    server.handler._tenants.replace([ACME, GLOBEX])
    world = World(server, issuer, Channel("acme", "demo", "mine"), "", "", "")
    by_session, by_key = world.token(), KEY
    said = await _called(
        http, world, routes.POST_MESSAGE, by_session, chat_message("m1", None, demo(tokens=2))
    )
    body = {"model": "demo", "input": demo(tokens=2)}
    made = [
        (await _called(http, world, routes.CREATE_RESPONSE, credential, body))["id"]
        for credential in (by_key, by_session)
    ]
    return world._replace(response_id=said["response_id"], of_key=made[0], of_token=made[1])


async def _called(
    http: aiohttp.ClientSession, world: World, route: Route, credential: str, body: object
) -> dict[str, Any]:
    url = f"{world.server.http_url}{route.path}"
    headers = _bearer(credential)
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


def _expected(column: Column, row: Row) -> tuple[int, str] | None:
    if not column.named:
        return column.refusals.get(row.credential)
    return refusal(row.route, CallerKind.OTHER_SESSION if row.by_token else CallerKind.OTHER_TENANT)


@pytest.mark.parametrize("name", COLUMNS)
async def test_a_bad_credential_is_refused_by_every_route(
    world: World, http: aiohttp.ClientSession, name: str
) -> None:
    column, wrong = COLUMNS[name], dict[str, object]()
    rows = [row for row in ROWS if _expected(column, row) is not None]
    assert rows
    for row in rows:
        if column.named and row.credential is Credential.OPENER:
            continue  # its tenant is in the body
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
    for row in sorted(GUARDED, key=_is_in(_LAST)):
        answer = await _tried(http, world, row, _bearer(_good(world, row)))
        if row.route is routes.TOOL_RESULT:
            assert answer.error["code"] == "call_not_open", "an answer of text alone has no call"
            continue
        assert answer.status in (101, 200, 201, 202, 204), (row.route, answer.body)


def _is_in(last: tuple[Route, ...]) -> Callable[[Row], bool]:
    return lambda row: row.route in last
