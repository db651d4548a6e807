from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.auth.oidc import IdentityTokens
from evenflow.stream_core.auth.oidc_keys import parse_keys
from evenflow.stream_core.auth.rights import ALL_RIGHTS, Right
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.agents import Agent, Agents
from evenflow.stream_core.base.channel import NAME_PATTERN, Channel
from evenflow.stream_core.base.errors import (
    AuthenticationFailed,
    EvenflowError,
    InvalidRequest,
    NotFound,
    RateLimited,
)
from evenflow.stream_core.bounds.address_rates import AddressRates
from evenflow.stream_core.protocols.evenflow.messages import SESSION_REQUEST, SessionRequest, parse
from evenflow.stream_core.protocols.evenflow.session_init import (
    OpenedSession,
    bearer,
    check_address,
    iso_time,
    open_session,
)
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant import ApiKey, Scope, Tenant
from tests.identity_provider import IdentityProvider

TOKENS = SessionTokens({"k1": b"secret--" * 4})
NOW = 1_795_251_600.0
AGENTS = Agents({"demo": Agent(), "a": Agent(suggestions=["Why?"])})


def opened(
    request: SessionRequest,
    given_key: str | None = None,
    tenant_keys: dict[str, str] | None = None,
    check_without_key: Callable[[], None] = lambda: None,
) -> OpenedSession:
    return open_session(
        request,
        given_key,
        agents=AGENTS,
        tenants=Tenants(tenant_keys),
        tokens=TOKENS,
        now=NOW,
        ttl=3600,
        check_without_key=check_without_key,
    )


def test_a_session_needs_nothing_but_asking_for_it() -> None:
    session = opened(SessionRequest())
    assert re.fullmatch(r"ses_[0-9a-f]{32}", session.session_id)
    claims = TOKENS.verify(session.token, NOW)
    assert claims.channel == Channel("public", "demo", session.session_id)
    assert session.expires_at == iso_time(claims.expires_at)
    assert claims.expires_at == NOW + 3600


def test_session_ids_that_the_server_makes_are_names_and_never_the_same() -> None:
    made = {opened(SessionRequest()).session_id for _ in range(200)}
    assert len(made) == 200
    assert all(re.fullmatch(NAME_PATTERN, session_id) for session_id in made)


def test_naming_a_session_continues_it() -> None:
    session = opened(SessionRequest(tenant="acme", agent="a", session_id="ses_mine"))
    assert session.session_id == "ses_mine"
    assert TOKENS.verify(session.token, NOW).channel == Channel("acme", "a", "ses_mine")


def test_who_gives_a_key_and_names_no_tenant_is_the_keys_tenant() -> None:
    keys = {"acme": "key-of-acme"}
    session = opened(SessionRequest(), "key-of-acme", keys)
    claims = TOKENS.verify(session.token, NOW)
    assert (claims.channel.tenant, claims.key) == ("acme", "given")
    for name, key in (("globex", "key-of-acme"), ("public", "key-of-acme"), (None, "of-nobody")):
        named = SessionRequest() if name is None else SessionRequest(tenant=name)
        with pytest.raises(AuthenticationFailed):
            opened(named, key, keys)


def test_the_agent_is_told_with_what_it_suggests() -> None:
    body = opened(SessionRequest(agent="a")).to_body(ws_url="ws://x/ws", http_url="http://x")
    assert (body["agent"], body["suggestions"]) == ("a", ["Why?"])
    assert opened(SessionRequest()).to_body(ws_url="", http_url="")["agent"] == "demo"


def test_an_agent_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(NotFound, match=r"'b'.*demo, a$") as refused:
        opened(SessionRequest(agent="b"))
    assert (refused.value.code, refused.value.param) == ("agent_not_found", "agent")


def test_the_user_is_in_the_token() -> None:
    assert TOKENS.verify(opened(SessionRequest(user="Zoë\n")).token, NOW).user == "Zoë\n"
    assert TOKENS.verify(opened(SessionRequest()).token, NOW).user == ""


def test_the_token_may_do_what_the_request_names_and_without_that_everything() -> None:
    asked = SessionRequest(may=[Right.READ, Right.CANCEL])
    assert TOKENS.verify(opened(asked).token, NOW).may == {Right.READ, Right.CANCEL}
    assert TOKENS.verify(opened(SessionRequest()).token, NOW).may == ALL_RIGHTS


def test_without_any_tenant_key_every_tenant_is_open() -> None:
    assert opened(SessionRequest(tenant="anyone")).session_id


KEYS = {"acme": "acme-key", "beta": "beta-key"}


def test_a_tenant_with_a_key_needs_it() -> None:
    assert opened(SessionRequest(tenant="acme"), "acme-key", KEYS).session_id


@pytest.mark.parametrize("given_key", [None, "", "beta-key", "acme-key2", "ACME-KEY"])
def test_a_tenant_with_a_key_is_refused_without_it_or_with_another(given_key: str | None) -> None:
    with pytest.raises(AuthenticationFailed) as refusal:
        opened(SessionRequest(tenant="acme"), given_key, KEYS)
    assert refusal.value.code == "tenant_key_invalid"
    assert "acme-key" not in refusal.value.message


@pytest.mark.parametrize("given_key", [None, "acme-key"])
def test_where_keys_are_set_a_tenant_without_one_is_unknown(given_key: str | None) -> None:
    with pytest.raises(AuthenticationFailed):
        opened(SessionRequest(tenant="nobody"), given_key, KEYS)


@pytest.mark.parametrize(
    ("tenant", "given_key", "keys"),
    [
        ("public", None, {}),
        ("public", "acme-key", KEYS),
        ("acme", None, KEYS),
        ("acme", "beta-key", KEYS),
        ("nobody", None, KEYS),
    ],
)
def test_who_has_no_key_may_be_refused_whatever_they_ask_for(
    tenant: str, given_key: str | None, keys: dict[str, str]
) -> None:
    rates = AddressRates(0.5)

    def check() -> None:
        check_address(rates, "203.0.113.7", 0.0)

    for _ in range(30):
        with suppress(AuthenticationFailed):
            opened(SessionRequest(tenant=tenant), given_key, keys, check)
    with pytest.raises(RateLimited) as refusal:
        opened(SessionRequest(tenant=tenant), given_key, keys, check)
    assert (refusal.value.code, refusal.value.retry_after_ms) == ("address_sessions", 2_000)
    assert opened(SessionRequest(tenant="acme"), "acme-key", KEYS, check).session_id


def test_the_public_tenant_needs_a_key_too_once_another_has_one() -> None:
    for keys in (KEYS, KEYS | {"public": "x"}):
        with pytest.raises(AuthenticationFailed) as refusal:
            opened(SessionRequest(), None, keys)
        assert refusal.value.code == "tenant_key_invalid"


@pytest.mark.parametrize("field", ["tenant", "agent", "session_id"])
@pytest.mark.parametrize(
    "name", ["", "a" * 65, "a b", "a:b", "ä", "a/b", "a\\n", "\\u0000", "a\\nb"]
)
def test_a_name_outside_the_pattern_is_refused_and_the_field_is_named(
    field: str, name: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse(SESSION_REQUEST, f'{{"{field}": "{name}"}}'.encode())
    assert (refusal.value.code, refusal.value.param) == ("invalid_field", field)


@pytest.mark.parametrize("name", ["a", "A-Z_0.9", "a" * 64])
def test_a_name_within_the_pattern_is_taken(name: str) -> None:
    assert parse(SESSION_REQUEST, f'{{"session_id": "{name}"}}'.encode()).session_id == name


@given(st.integers(0, 4_000_000_000))
def test_the_expiry_is_iso_8601_in_utc(seconds: int) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", iso_time(seconds))


def test_the_expiry_is_told_to_the_second() -> None:
    assert iso_time(NOW + 0.9) == "2026-11-21T09:00:00Z"


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("BEARER  abc ", "abc"),
        ("Basic abc", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("", None),
        (None, None),
        ("abc", None),
    ],
)
def test_the_bearer_token_of_a_header(header: str | None, token: str | None) -> None:
    assert bearer(header) == token


PROVIDER = IdentityProvider("https://login.example.com")


def identities() -> IdentityTokens:
    tokens = IdentityTokens(PROVIDER.settings(tenant_claim="org"))
    tokens.keys.replace(parse_keys(PROVIDER.jwks()), NOW)
    return tokens


def opened_by(
    given: str | None,
    record: Tenant | None = None,
    *,
    origin: str | None = None,
    check_without_key: Callable[[], None] = lambda: None,
    **body: Any,
) -> OpenedSession:
    """A session that an identity provider's token opens, or a key of the record."""
    return open_session(
        SessionRequest(**body),
        given,
        agents=AGENTS,
        tenants=Tenants(records=[record] if record else (), identified=True),
        tokens=TOKENS,
        now=NOW,
        ttl=3600,
        check_without_key=check_without_key,
        identities=identities(),
        origin=origin,
    )


def refusal_of(opening: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(EvenflowError) as refused:
        opening()
    return refused.value.status, refused.value.code


def test_a_token_of_the_identity_provider_says_whose_session_it_is() -> None:
    session = opened_by(PROVIDER.token(NOW, org="acme"))
    claims = TOKENS.verify(session.token, NOW)
    assert (claims.channel.tenant, claims.user, claims.key) == ("acme", "ada", "")
    assert re.fullmatch(NAME_PATTERN, session.session_id)
    named = opened_by(PROVIDER.token(NOW, org="acme"), tenant="acme", user="ada")
    assert TOKENS.verify(named.token, NOW).user == "ada"


@pytest.mark.parametrize("body", [{"tenant": "globex"}, {"tenant": "public"}, {"user": "eve"}])
def test_a_body_claims_nothing_that_the_token_does_not_say(body: dict[str, Any]) -> None:
    token = PROVIDER.token(NOW, org="acme")
    assert refusal_of(lambda: opened_by(token, **body)) == (403, "identity_mismatch")


def test_with_an_identity_provider_nobody_opens_sessions_without_key_or_token() -> None:
    counted = list[int]()

    def count() -> None:
        counted.append(1)

    for wrong in (None, "a-wrong-key", "a.b.c"):
        opening = partial(opened_by, wrong, check_without_key=count)
        assert refusal_of(opening) == (401, "tenant_key_invalid")
    forged = partial(opened_by, PROVIDER.unsigned(NOW), check_without_key=count)
    assert refusal_of(forged) == (401, "identity_token_algorithm")
    assert len(counted) == 4
    opened_by(PROVIDER.token(NOW, org="acme"), check_without_key=count)
    assert len(counted) == 4


def test_an_identity_provider_opens_nothing_of_a_removed_tenant() -> None:
    tenants = Tenants(identified=True)
    opening = partial(
        open_session,
        SessionRequest(),
        PROVIDER.token(NOW, org="acme"),
        agents=AGENTS,
        tenants=tenants,
        tokens=TOKENS,
        now=NOW,
        ttl=3600,
        check_without_key=lambda: None,
        identities=identities(),
    )
    assert opening().channel.tenant == "acme"
    tenants.replace([], removed={"acme"}, closed=True)
    assert refusal_of(opening) == (403, "tenant_removed")


def test_a_tenants_key_opens_sessions_beside_an_identity_provider() -> None:
    record = Tenant(id="acme", keys=(ApiKey.of_text("k1", "evf_1"),))
    claims = TOKENS.verify(opened_by("evf_1", record, tenant="acme", user="bob").token, NOW)
    assert (claims.channel.tenant, claims.user, claims.key) == ("acme", "bob", "k1")


def test_a_user_of_an_identity_provider_opens_no_session_of_another() -> None:
    ada, eve = (PROVIDER.token(NOW, org="acme", sub=user) for user in ("ada", "eve"))
    first = opened_by(ada, session_id="mine")
    assert opened_by(ada, session_id="mine").session_id == first.session_id
    assert opened_by(ada, session_id=first.session_id).session_id == first.session_id
    for name in ("mine", first.session_id):
        assert opened_by(eve, session_id=name).session_id != first.session_id


@given(st.from_regex(NAME_PATTERN, fullmatch=True))
def test_any_name_of_a_session_becomes_a_name_of_its_user(name: str) -> None:
    token = PROVIDER.token(NOW, org="acme")
    session_id = opened_by(token, session_id=name.rstrip("\n")).session_id
    assert re.fullmatch(NAME_PATTERN, session_id)
    assert opened_by(token, session_id=session_id).session_id == session_id


def test_a_key_that_is_not_for_sessions_opens_none() -> None:
    scopes = frozenset([Scope.API, Scope.READ])
    record = Tenant(id="acme", keys=(ApiKey.of_text("k1", "evf_1", scopes=scopes),))
    opening = partial(opened_by, "evf_1", record, tenant="acme")
    assert refusal_of(opening) == (403, "key_scope")


def test_a_tenants_agents_are_all_that_its_sessions_may_name() -> None:
    key = ApiKey.of_text("k1", "evf_1")
    record = Tenant(id="acme", keys=(key,), agents=("a", "gone"))
    assert opened_by("evf_1", record, tenant="acme").channel.agent == "a"
    assert opened_by("evf_1", record, tenant="acme", agent="a").channel.agent == "a"
    with pytest.raises(NotFound, match=r"one of: a$"):
        opened_by("evf_1", record, tenant="acme", agent="demo")
    nothing_left = record.model_copy(update={"agents": ("gone",)})
    assert refusal_of(lambda: opened_by("evf_1", nothing_left, tenant="acme")) == (
        404,
        "agent_not_found",
    )


def test_a_tenants_pages_are_all_that_use_its_keys_and_tokens() -> None:
    record = Tenant(
        id="acme", keys=(ApiKey.of_text("k1", "evf_1"),), origins=("https://acme.example",)
    )
    for origin in (None, "https://acme.example"):
        assert opened_by("evf_1", record, tenant="acme", origin=origin).token
    elsewhere = partial(opened_by, "evf_1", record, tenant="acme", origin="https://evil.example")
    assert refusal_of(elsewhere) == (403, "origin_not_allowed")
