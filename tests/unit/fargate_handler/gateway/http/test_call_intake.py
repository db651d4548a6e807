"""Every HTTP call passes one intake: a walk over the routes that the server has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiohttp import web

from evenflow.fargate_handler.gateway.connections import rate_keys
from evenflow.fargate_handler.gateway.http.call_intake import CallIntake
from evenflow.stream_core.auth.allowed_hosts import AllowedHosts
from evenflow.stream_core.auth.allowed_origins import AllowedOrigins
from evenflow.stream_core.auth.rights import ALL_RIGHTS, Right
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.call_rates import RateKeys
from evenflow.stream_core.http.routes import ROUTES, Bound, Credential, Route
from evenflow.stream_core.tenants.registry import Tenants
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, body_of

_STRANGER, _OTHER = "192.0.2.7", "192.0.2.8"
_NO_TOKEN = {"Authorization": ""}
_NAMES = {"response_id": "r1", "session_id": CHANNEL.session, "chat_id": "c1", "model": "demo"}
_NAMES |= {"name": "page.js", "epoch": "1", "first": "0", "last": "9"}
_WITH_TOKEN = [
    route
    for route in ROUTES
    if route.terms.right is not None and route.terms.bound is not Bound.SOCKET
]
_PREFLIGHT = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
_SLOW = Limits(calls_per_second=1, calls_per_sender_per_second=1)


@pytest.fixture(autouse=True)
def _refuse_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_keys, "_REJECTION_DELAY_SECONDS", 0.0)


def _path(route: Route) -> str:
    return route.with_names(**_NAMES)


async def _code(
    calls: Calls, method: str, path: str, headers: dict[str, str] | None = None, remote: str = ""
) -> str | None:
    """The code of the error. None where the call was answered."""
    answer = await calls.call(method, path, headers, remote=remote or "127.0.0.1")
    return body_of(answer)["error"]["code"] if answer.status >= 400 else None


async def test_the_server_has_no_path_beside_the_table() -> None:
    there = [
        each
        for each in Calls(Gateway().context, CHANNEL)._app.router.routes()
        if each.resource is not None and each.method != "HEAD"
    ]
    served = {(each.method, each.resource.canonical) for each in there if each.resource}
    table = {(route.method, route.path.replace("+}", "}")) for route in ROUTES}
    assert served == table


def test_all_credentials_and_bounds_are_those_of_some_route() -> None:
    assert {route.terms.credential for route in ROUTES} == set(Credential)
    assert {route.terms.bound for route in ROUTES} == set(Bound)


@pytest.mark.parametrize("route", ROUTES, ids=str)
async def test_a_stranger_s_calls_of_every_route_have_a_rate(route: Route) -> None:
    gateway = Gateway(_SLOW)
    calls = Calls(gateway.context, CHANNEL)
    called = (calls, route.method, _path(route), _NO_TOKEN)
    assert await _code(*called, _STRANGER) != "rate_limited"
    gateway.context.calls.add(rate_keys.anonymous_rate_keys(_STRANGER), 4, gateway.clock.now)
    assert await _code(*called, _STRANGER) == "rate_limited"
    assert await _code(*called, _OTHER) != "rate_limited"


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("PUT", "/session", {}, 405),
        ("GET", "/v1/embeddings", {}, 404),
        ("GET", "/v1/messages/batches", {}, 404),
        ("GET", "/v1/models", {"Host": "elsewhere.example"}, 403),
        ("POST", "/session", {"Origin": "https://evil.example", "Content-Type": "text/plain"}, 415),
        ("OPTIONS", "/session", _PREFLIGHT, 204),
    ],
)
async def test_so_have_calls_that_no_endpoint_answers(
    method: str, path: str, headers: dict[str, str], status: int
) -> None:
    gateway = Gateway(_SLOW)
    site = replace(
        gateway.context.site,
        allowed_hosts=AllowedHosts(["chat.example"]),
        allowed_origins=AllowedOrigins([_PREFLIGHT["Origin"]]),
    )
    context = replace(gateway.context, site=site)
    calls, sent = Calls(context, CHANNEL), {"Host": "127.0.0.1", **headers}
    calls._headers = {}
    assert (await calls.call(method, path, sent, remote=_STRANGER)).status == status
    context.calls.add(rate_keys.anonymous_rate_keys(_STRANGER), 4, gateway.clock.now)
    assert (await calls.call(method, path, sent, remote=_STRANGER)).status == 429


@pytest.mark.parametrize("route", _WITH_TOKEN, ids=str)
async def test_a_session_s_calls_of_every_route_have_a_rate_that_counts_their_cost(
    route: Route,
) -> None:
    gateway, session = Gateway(Limits(calls_per_second=100)), RateKeys(CHANNEL)
    calls, rates = Calls(gateway.context, CHANNEL), gateway.context.calls
    rates.add(session, 199, gateway.clock.now)  # one of the burst is left
    assert await _code(calls, route.method, _path(route)) != "rate_limited"
    wait = rates.charge(session, 0, gateway.clock.now)
    assert wait >= route.terms.cost / 100 - 1e-9, "the call was charged"
    rates.add(session, 400, gateway.clock.now)
    assert await _code(calls, route.method, _path(route)) == "rate_limited"


@pytest.mark.parametrize(
    ("has_keys", "address", "sender"),
    [
        (True, _STRANGER, ("acme", _STRANGER)),
        (False, _STRANGER, _STRANGER),
        (True, "127.0.0.1", None),
        (False, "127.0.0.1", None),
    ],
)
async def test_a_session_s_calls_count_for_its_tenant_at_its_address(
    has_keys: bool, address: str, sender: object
) -> None:
    """Else one client has as many calls as it has sessions."""
    channel = CHANNEL._replace(tenant="acme")
    claims = SessionClaims(channel, expires_at=2_000_000_000, issued_at=0, may=ALL_RIGHTS)
    context = replace(
        Gateway().context,
        tenants=Tenants(configured_keys={"acme": "a-key-of-acme"} if has_keys else {}),
    )
    assert rate_keys.token_rate_keys(claims, address, context) == RateKeys(channel, sender)


async def test_another_session_does_not_wait() -> None:
    gateway = Gateway(_SLOW)
    gateway.context.calls.add(RateKeys(CHANNEL), 100, gateway.clock.now)
    other = Calls(gateway.context, CHANNEL._replace(session="ses_2"))
    assert await _code(other, "GET", "/v1/models") is None


async def test_what_other_tasks_read_has_no_rate() -> None:
    gateway = Gateway(_SLOW)
    calls = Calls(gateway.context, CHANNEL)
    gateway.context.calls.add(RateKeys(CHANNEL, _STRANGER), 100, gateway.clock.now)
    path, peer = "/chat/message/r1/events?joined=0", calls.as_peer("r1")
    assert await _code(calls, "GET", path, peer, _STRANGER) == "response_not_found"


async def test_a_share_is_counted_beside_its_session_and_by_address() -> None:
    gateway = Gateway(_SLOW)
    calls, now = Calls(gateway.context, CHANNEL), gateway.clock.now
    token, _ = gateway.context.access.tokens.issue(CHANNEL, now, 60, may=frozenset([Right.READ]))
    share = {"Authorization": f"Bearer {token}"}
    rates, read = gateway.context.calls, (calls, "GET", "/chat/message/r1")
    rates.add(RateKeys(CHANNEL), 100, now)
    assert await _code(*read, share) == "response_not_found"
    rates.add(RateKeys((CHANNEL, None, "", "127.0.0.1")), 100, now)
    assert await _code(*read, share) == "rate_limited"
    assert await _code(*read, share, "127.0.0.2") == "response_not_found"


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.terms.bound is Bound.STREAM], ids=str
)
async def test_each_that_may_wait_takes_one_of_its_session_s_places(route: Route) -> None:
    gateway = Gateway(Limits(streams_per_session=1))
    calls = Calls(gateway.context, CHANNEL)
    assert await _code(calls, "GET", _path(route)) != "session_streams"
    with gateway.context.calls.streaming(RateKeys(CHANNEL)):
        assert await _code(calls, "GET", _path(route)) == "session_streams"


@pytest.mark.parametrize("route", _WITH_TOKEN, ids=str)
async def test_no_endpoint_is_called_without_the_right_that_its_route_says(route: Route) -> None:
    """The endpoint itself looks at no right."""
    gateway, called = Gateway(), list[str]()

    async def endpoint(request: web.Request) -> web.StreamResponse:
        called.append(request.path)
        return web.Response()

    elsewhere = replace(route, path=f"/new{route.path}")
    admitted = CallIntake(gateway.context).admitted(elsewhere, endpoint)
    served = web.route(route.method, elsewhere.path.replace("+}", ":.+}"), admitted)
    calls = Calls(gateway.context, CHANNEL, served)
    rights = frozenset(right for right in Right if right is not route.terms.right)
    lacking, _ = gateway.context.access.tokens.issue(CHANNEL, gateway.clock.now, 60, may=rights)
    path, without = _path(elsewhere), {"Authorization": f"Bearer {lacking}"}
    assert (await calls.call(route.method, path, without)).status == 403
    assert called == []
    assert (await calls.call(route.method, path)).status == 200
    assert called == [path]
