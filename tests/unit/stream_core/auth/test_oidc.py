from __future__ import annotations

import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from evenflow.stream_core.auth.oidc import Identity, IdentityTokens
from evenflow.stream_core.auth.oidc_keys import (
    ALGORITHMS,
    FRESH_SECONDS,
    DocumentUnreadable,
    keys_url_in,
    parse_keys,
)
from evenflow.stream_core.auth.oidc_settings import OidcSettings
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import EvenflowError, NotPermitted, Overloaded
from tests.identity_provider import AUDIENCE, IdentityProvider, make_key

NOW = 1_795_251_600.0
ENDS = NOW + 300 + 60  # and clocks may differ
ISSUER = "https://login.example.com/"


@pytest.fixture(scope="module")
def provider() -> IdentityProvider:
    return IdentityProvider(ISSUER)


def knowing(provider: IdentityProvider, **given: object) -> IdentityTokens:
    tokens = IdentityTokens(provider.settings(**given))
    tokens.keys.replace(parse_keys(provider.jwks()), NOW)
    return tokens


def refusal(tokens: IdentityTokens, token: str, now: float = NOW) -> str:
    with pytest.raises(EvenflowError) as refused:
        tokens.verify(token, now)
    return refused.value.code


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_with_a_public_key_is_taken(algorithm: str) -> None:
    provider = IdentityProvider(ISSUER, algorithm)
    told = knowing(provider).verify(provider.token(NOW), NOW)
    assert told == Identity("public", "ada", ENDS)


def test_the_claims_that_name_tenant_and_user_are_settings(provider: IdentityProvider) -> None:
    tokens = knowing(provider, tenant_claim="https://acme/org", user_claim="email")
    claims: dict[str, Any] = {"https://acme/org": "acme", "email": "ada@acme.com"}
    token = provider.token(NOW, **claims)
    assert tokens.verify(token, NOW) == Identity("acme", "ada@acme.com", ENDS)
    fixed = knowing(provider, tenant="globex")
    assert fixed.verify(token, NOW) == Identity("globex", "ada", ENDS)


@pytest.mark.parametrize("tenant", ["", "a:b", "a/b", "é", "x" * 65, "acme\n", 7, ["acme"], None])
def test_a_claim_that_is_no_tenants_name_is_refused(
    provider: IdentityProvider, tenant: object
) -> None:
    tokens = knowing(provider, tenant_claim="org")
    with pytest.raises(NotPermitted, match="'org' must be"):
        tokens.verify(provider.token(NOW, org=tenant), NOW)


@pytest.mark.parametrize("user", ["", "x" * 257, 7, None])
def test_a_claim_that_is_no_user_is_refused(provider: IdentityProvider, user: object) -> None:
    tokens = knowing(provider, user_claim="name")
    assert refusal(tokens, provider.token(NOW, name=user)) == "identity_claim_invalid"


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"iss": "https://other.example.com/"}, "identity_token_issuer"),
        ({"iss": ISSUER.rstrip("/")}, "identity_token_issuer"),
        ({"aud": "another-api"}, "identity_token_audience"),
        ({"aud": ["another-api"]}, "identity_token_audience"),
        ({"aud": None}, "identity_token_audience"),
        ({"aud": None, "client_id": AUDIENCE}, "identity_token_audience"),
        ({"aud": None, "client_id": AUDIENCE, "token_use": "id"}, "identity_token_audience"),
        ({"aud": None, "client_id": "other", "token_use": "access"}, "identity_token_audience"),
        ({"aud": "other", "client_id": AUDIENCE, "token_use": "access"}, "identity_token_audience"),
        ({"exp": NOW - 60}, "identity_token_expired"),
        ({"exp": None}, "identity_token_invalid"),
        ({"nbf": NOW + 61}, "identity_token_early"),
    ],
)
def test_each_claim_that_is_wrong_has_its_code(
    provider: IdentityProvider, claims: dict[str, Any], code: str
) -> None:
    assert refusal(knowing(provider), provider.token(NOW, **claims)) == code


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["another-api", AUDIENCE]},
        {"aud": None, "client_id": AUDIENCE, "token_use": "access"},
        {"exp": NOW - 59},
        {"nbf": NOW + 60},
    ],
)
def test_clocks_may_differ_and_an_audience_may_be_a_list_or_cognitos_client(
    provider: IdentityProvider, claims: dict[str, Any]
) -> None:
    assert knowing(provider).verify(provider.token(NOW, **claims), NOW) is not None


def test_no_token_is_forged(provider: IdentityProvider) -> None:
    tokens, stranger = knowing(provider), make_key("RS256")
    header, claims, signature = provider.token(NOW).split(".")
    other_claims = provider.token(NOW, sub="eve").split(".")[1]
    forged = {
        provider.token(NOW, signed_by=stranger): "identity_token_invalid",
        f"{header}.{other_claims}.{signature}": "identity_token_invalid",
        f"{header}.{claims}.": "identity_token_invalid",
        provider.unsigned(NOW): "identity_token_algorithm",
        provider.signed_with_public_key(NOW): "identity_token_algorithm",
        provider.token(NOW, signed_by=stranger, key_id="theirs"): "identity_key_unknown",
        # A key of another type, under the id of a known one.
        provider.token(NOW, signed_by=make_key("ES256"), algorithm="ES256"): (
            "identity_token_invalid"
        ),
    }
    assert {token: refusal(tokens, token) for token in forged} == forged


def test_a_key_that_names_its_algorithm_is_for_no_other(provider: IdentityProvider) -> None:
    tokens = IdentityTokens(provider.settings())
    tokens.keys.replace(parse_keys(provider.jwks(alg="RS512")), NOW)
    assert refusal(tokens, provider.token(NOW)) == "identity_token_invalid"
    assert tokens.verify(provider.token(NOW, algorithm="RS512"), NOW) is not None


def test_a_token_without_a_key_id_may_be_of_any_key(provider: IdentityProvider) -> None:
    tokens = knowing(provider)
    token = jwt.encode(provider.claims(NOW), provider.private[provider.key_id], "RS256")  # type: ignore[arg-type]
    assert tokens.verify(token, NOW) == Identity("public", "ada", ENDS)


@pytest.mark.parametrize("text", [None, "", "evf_key", "a.b", "a.b.c", "e30.e30.e30", "\udcff.x.y"])
def test_what_is_no_token_of_a_provider_is_left_to_others(
    provider: IdentityProvider, text: str | None
) -> None:
    tokens = IdentityTokens(provider.settings())
    assert tokens.verify(text, NOW) is None
    assert not tokens.is_due(text, NOW)
    assert tokens.has_key_of(text)


def test_our_own_session_tokens_are_no_tokens_of_a_provider(provider: IdentityProvider) -> None:
    own, _ = SessionTokens({"key-0": b"s" * 32}).issue(Channel("a", "b", "c"), NOW, 60)
    assert knowing(provider).verify(own, NOW) is None


def test_without_any_key_callers_are_told_to_come_again(provider: IdentityProvider) -> None:
    tokens = IdentityTokens(provider.settings())
    with pytest.raises(Overloaded) as refused:
        tokens.verify(provider.token(NOW), NOW)
    assert refused.value.code == "identity_keys_unavailable"
    assert refused.value.retry_after_seconds == 1
    tokens.keys.begin(NOW)
    with pytest.raises(Overloaded) as refused:
        tokens.verify(provider.token(NOW), NOW)
    assert refused.value.retry_after_seconds == 2
    assert not tokens.is_due(provider.token(NOW), NOW + 1)
    assert tokens.is_due(provider.token(NOW), NOW + 2)


def test_keys_are_fetched_once_an_hour(provider: IdentityProvider) -> None:
    tokens, token = knowing(provider), provider.token(NOW)
    assert not tokens.is_due(token, NOW + FRESH_SECONDS - 1)
    assert tokens.is_due(token, NOW + FRESH_SECONDS)
    assert tokens.has_key_of(token)


def test_a_new_key_is_asked_for_at_once_and_forged_ids_do_not_make_us_ask_more_often(
    provider: IdentityProvider,
) -> None:
    tokens = knowing(provider)
    unknown = [provider.token(NOW, key_id=f"forged-{number}") for number in range(3)]
    assert tokens.is_due(unknown[0], NOW)
    tokens.keys.begin(NOW)
    tokens.keys.replace(parse_keys(provider.jwks()), NOW)
    assert not any(tokens.is_due(token, NOW + 29) for token in unknown)
    assert tokens.is_due(unknown[1], NOW + 30)


@pytest.mark.parametrize("has_id", [True, False])
def test_a_key_that_took_the_place_of_another_is_asked_for_at_once(
    provider: IdentityProvider, has_id: bool
) -> None:
    after = IdentityProvider(ISSUER)  # its key has the same id, or none
    tokens, token = IdentityTokens(provider.settings()), after.token(NOW)
    documents = [provider.jwks(), after.jwks()]
    if not has_id:
        token = jwt.encode(after.claims(NOW), after.private[after.key_id], "RS256")  # type: ignore[arg-type]
        documents = [document.replace(b'"kid"', b'"no_kid"') for document in documents]
    tokens.keys.replace(parse_keys(documents[0]), NOW)
    assert tokens.is_due(token, NOW)
    assert not tokens.has_key_of(token)
    tokens.keys.begin(NOW)
    assert refusal(tokens, token) == "identity_keys_unavailable"
    tokens.keys.replace(parse_keys(documents[1]), NOW)
    assert tokens.verify(token, NOW) is not None
    forged = provider.token(NOW)
    assert refusal(tokens, forged) in ("identity_token_invalid", "identity_key_unknown")
    assert not tokens.is_due(forged, NOW + 29)
    assert tokens.is_due(forged, NOW + 30)


def test_tokens_that_cannot_be_the_issuers_make_nobody_ask(provider: IdentityProvider) -> None:
    tokens = IdentityTokens(provider.settings())
    other = IdentityProvider("https://other.example.com")
    for token in (other.token(NOW), provider.unsigned(NOW), provider.signed_with_public_key(NOW)):
        assert not tokens.is_due(token, NOW)
        assert tokens.has_key_of(token)


def test_while_the_issuer_is_down_known_keys_stay_and_unknown_ones_may_exist(
    provider: IdentityProvider,
) -> None:
    tokens = knowing(provider)
    later = NOW + FRESH_SECONDS
    tokens.keys.begin(later)
    assert tokens.verify(provider.token(later), later) is not None
    assert not tokens.is_due(provider.token(later), later + 29)
    assert tokens.is_due(provider.token(later), later + 30)
    assert refusal(tokens, provider.token(later, key_id="new"), later) == (
        "identity_keys_unavailable"
    )


def test_a_jwks_of_any_kind_is_read_and_only_public_signing_keys_count() -> None:
    provider = IdentityProvider(ISSUER)
    listed = json.loads(provider.jwks())["keys"]
    odd = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        {**listed[0], "kid": "encrypts", "use": "enc"},
        {**listed[0], "kid": "wraps", "alg": "RSA-OAEP"},
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
        {"kty": "RSA", "kid": "empty"},
        {"kty": ["EC"], "crv": ["P-256"], "alg": {}, "kid": "odd"},
        "no key",
    ]
    keys = parse_keys(json.dumps({"keys": [*odd, *listed]}).encode())
    assert [key.id for key in keys] == ["key-0"]
    for document in (b"", b"[]", b"{}", b'{"keys": 1}', json.dumps({"keys": odd}).encode()):
        with pytest.raises(DocumentUnreadable):
            parse_keys(document)


def test_weak_keys_sign_nothing() -> None:
    weak = IdentityProvider(ISSUER)
    weak.private["weak"] = rsa.generate_private_key(65_537, 1_024)  # noqa: S505
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = weak.token(NOW)
    assert refusal(knowing(weak), token) == "identity_token_invalid"


def test_the_discovery_document_is_the_issuers_own_and_names_a_safe_place(
    provider: IdentityProvider,
) -> None:
    settings = provider.settings()
    url = "https://keys.example.com/jwks?p=policy"
    assert keys_url_in(_discovery(ISSUER, url), settings) == url
    for document in (
        _discovery("https://login.example.com", url),
        _discovery(ISSUER, "http://keys.example.com/jwks"),
        _discovery(ISSUER, "file:///etc/passwd"),
        _discovery(ISSUER, None),
        b"<html>",
        b"[" * 100_000,
    ):
        with pytest.raises(DocumentUnreadable):
            keys_url_in(document, settings)


def _discovery(issuer: str, url: str | None) -> bytes:
    return json.dumps({"issuer": issuer, "jwks_uri": url}).encode()


@pytest.mark.parametrize(
    ("issuer", "url"),
    [
        ("https://x.auth0.com/", "https://x.auth0.com/.well-known/openid-configuration"),
        (
            "https://login.microsoftonline.com/t/v2.0",
            "https://login.microsoftonline.com/t/v2.0/.well-known/openid-configuration",
        ),
        ("http://127.0.0.1:9", "http://127.0.0.1:9/.well-known/openid-configuration"),
        ("http://[::1]:9", "http://[::1]:9/.well-known/openid-configuration"),
    ],
)
def test_an_issuers_keys_are_found_by_its_name(issuer: str, url: str) -> None:
    assert OidcSettings(issuer=issuer, audience="a").discovery_url == url


@pytest.mark.parametrize(
    ("variables", "wrong"),
    [
        ({"ISSUER": "http://login.example.com"}, "EVENFLOW_OIDC_ISSUER"),
        ({"ISSUER": "login.example.com"}, "EVENFLOW_OIDC_ISSUER"),
        ({"ISSUER": "https://x/?a=b"}, "EVENFLOW_OIDC_ISSUER"),
        ({"AUDIENCE": ""}, "EVENFLOW_OIDC_AUDIENCE"),
        ({"TENANT": "a:b"}, "EVENFLOW_OIDC_TENANT"),
        ({"SKEW_SECONDS": "-1"}, "EVENFLOW_OIDC_SKEW_SECONDS"),
        ({"KEYS_URL": "http://keys.example.com"}, "EVENFLOW_OIDC_KEYS_URL"),
    ],
)
def test_wrong_variables_are_named(variables: dict[str, str], wrong: str) -> None:
    whole = {"ISSUER": ISSUER, "AUDIENCE": "a", **variables}
    with pytest.raises(ValueError, match=wrong):
        OidcSettings.from_variables({f"EVENFLOW_OIDC_{name}": whole[name] for name in whole})


def test_what_is_written_as_variables_is_read_again() -> None:
    assert OidcSettings.from_variables({"EVENFLOW_MODEL": "demo"}) is None
    settings = OidcSettings(issuer=ISSUER, audience="a", tenant_claim="org", skew_seconds=5)
    assert OidcSettings.from_variables(settings.to_variables()) == settings
    assert set(settings.to_variables()) == {
        f"EVENFLOW_OIDC_{name}" for name in ("ISSUER", "AUDIENCE", "TENANT_CLAIM", "SKEW_SECONDS")
    }
