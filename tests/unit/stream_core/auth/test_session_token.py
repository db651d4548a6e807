from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.auth import session_token
from evenflow.stream_core.auth.rights import ALL_RIGHTS, TO_READ, Right
from evenflow.stream_core.auth.session_token import (
    SessionClaims,
    SessionTokens,
    for_peers,
    key_matches,
)
from evenflow.stream_core.base.channel import NAME_PATTERN, Channel
from evenflow.stream_core.base.errors import AuthenticationFailed, NotPermitted

OLD, NEW, OTHER = b"old-" * 8, b"new-" * 8, b"other-secret-" * 3
CHANNEL = Channel("acme", "support", "ses_1")
TOKENS = SessionTokens({"k1": OLD})
CLAIMS = {
    "iss": "evenflow",
    "sub": "ses_1",
    "tenant": "acme",
    "agent": "support",
    "iat": 1000,
    "exp": 4600,
}


def signed(
    claims: dict[str, Any], key: bytes = OLD, kid: object = "k1", algorithm: str = "HS256"
) -> str:
    return jwt.encode(claims, key, algorithm, headers={"kid": kid} if kid is not None else {})


def refused(token: str | None, tokens: SessionTokens = TOKENS, now: float = 2000.0) -> str:
    with pytest.raises(AuthenticationFailed) as refusal:
        tokens.verify(token, now)
    assert refusal.value.status == 401
    return refusal.value.code


@given(
    st.from_regex(NAME_PATTERN, fullmatch=True),
    st.from_regex(NAME_PATTERN, fullmatch=True),
    st.from_regex(NAME_PATTERN, fullmatch=True),
    st.floats(1, 4e9),
    st.integers(1, 86_400),
)
def test_what_is_issued_verifies_as_the_same_channel(
    tenant: str, agent: str, session: str, now: float, ttl: int
) -> None:
    channel = Channel(tenant, agent, session)
    token, expires_at = TOKENS.issue(channel, now, ttl)
    assert TOKENS.verify(token, now) == SessionClaims(channel, expires_at, int(now))
    assert expires_at == int(now) + ttl


def test_a_token_is_valid_until_the_second_that_it_names() -> None:
    token, expires_at = TOKENS.issue(CHANNEL, 1000.7, 3600)
    assert expires_at == 4600
    assert TOKENS.verify(token, 4599.9).channel == CHANNEL
    assert refused(token, now=4600.0) == "token_expired"
    assert refused(token, now=1e10) == "token_expired"


def test_a_token_is_not_valid_before_its_time() -> None:
    token = signed({**CLAIMS, "nbf": 2001})
    assert refused(token, now=2000.0) == "token_invalid"
    assert TOKENS.verify(token, 2001.0).channel == CHANNEL


def test_the_caller_s_clock_counts_and_not_the_machine_s() -> None:
    token, _ = TOKENS.issue(CHANNEL, 100.0, 60)
    assert TOKENS.verify(token, 120.0).channel == CHANNEL
    token, _ = TOKENS.issue(CHANNEL, 9e9, 60)
    assert TOKENS.verify(token, 9e9).channel == CHANNEL


@pytest.mark.parametrize("token", [None, ""])
def test_no_token_is_told_apart_from_a_wrong_one(token: str | None) -> None:
    assert refused(token) == "token_missing"


@pytest.mark.parametrize(
    "token", ["x", "a.b.c", "..", "bearer x", "ü.ü.ü", "\x00", "a" * 10_000, "\udcff.a.b"]
)
def test_what_is_no_token_is_refused(token: str) -> None:
    assert refused(token) == "token_invalid"


@given(st.data())
def test_a_token_with_any_character_changed_is_refused(data: st.DataObject) -> None:
    token, _ = TOKENS.issue(CHANNEL, 1000.0, 3600)
    at = data.draw(st.integers(0, len(token) - 1))
    put = data.draw(st.sampled_from("ABCxyz019-_."))
    forged = token[:at] + put + token[at + 1 :]
    try:
        claims = TOKENS.verify(forged, 2000.0)
    except AuthenticationFailed as refusal:
        assert refusal.code == "token_invalid"  # noqa: PT017 - either outcome is checked
    else:
        # The last character of a part has bits that stand for nothing.
        assert claims.channel == CHANNEL


def test_a_token_whose_claims_were_exchanged_is_refused() -> None:
    token, _ = TOKENS.issue(CHANNEL, 1000.0, 3600)
    head, _, signature = token.split(".")
    claims = (
        base64.urlsafe_b64encode(json.dumps(CLAIMS | {"sub": "ses_2"}).encode())
        .decode()
        .rstrip("=")
    )
    assert refused(f"{head}.{claims}.{signature}") == "token_invalid"


def test_a_token_signed_with_another_key_is_refused() -> None:
    assert refused(signed(CLAIMS, OTHER)) == "token_invalid"


@pytest.mark.parametrize("kid", [None, "k2", "", "K1"])
def test_a_token_of_an_unknown_key_is_refused(kid: str | None) -> None:
    assert refused(signed(CLAIMS, kid=kid)) == "token_invalid"


@pytest.mark.parametrize("kid", [5, ["k1"], {"k1": 1}, None, True])
def test_a_key_id_that_is_no_string_is_refused(kid: object) -> None:
    head = base64.urlsafe_b64encode(
        json.dumps({"alg": "HS256", "typ": "JWT", "kid": kid}).encode()
    ).decode()
    _, claims, signature = signed(CLAIMS).split(".")
    assert refused(f"{head.rstrip('=')}.{claims}.{signature}") == "token_invalid"


def test_a_token_without_a_signature_is_refused() -> None:
    unsigned = jwt.encode(CLAIMS, "", "none", headers={"kid": "k1"})
    assert refused(unsigned) == "token_invalid"
    head, claims, _ = signed(CLAIMS).split(".")
    assert refused(f"{head}.{claims}.") == "token_invalid"


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_another_algorithm_is_refused(algorithm: str) -> None:
    assert refused(signed(CLAIMS, algorithm=algorithm)) == "token_invalid"


@pytest.mark.parametrize("missing", ["exp", "sub", "tenant", "agent", "iss"])
def test_a_token_without_one_of_its_claims_is_refused(missing: str) -> None:
    claims = {name: value for name, value in CLAIMS.items() if name != missing}
    assert refused(signed(claims)) == "token_invalid"


def test_a_token_of_another_issuer_is_refused() -> None:
    assert refused(signed(CLAIMS | {"iss": "someone-else"})) == "token_invalid"


@pytest.mark.parametrize("claim", ["tenant", "agent", "sub"])
@pytest.mark.parametrize("value", [5, None, ["acme"], {"a": 1}, True])
def test_a_name_that_is_no_string_is_refused(claim: str, value: object) -> None:
    forged = (
        base64.urlsafe_b64encode(json.dumps(CLAIMS | {claim: value}).encode()).decode().rstrip("=")
    )
    head = signed(CLAIMS).split(".")[0]
    mac = jwt.get_algorithm_by_name("HS256")
    signature = mac.sign(f"{head}.{forged}".encode(), mac.prepare_key(OLD))
    token = f"{head}.{forged}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
    assert refused(token) == "token_invalid"


@pytest.mark.parametrize("value", ["soon", None, [4600], float("inf"), float("nan")])
def test_an_expiry_that_is_no_number_is_refused(value: object) -> None:
    assert refused(signed(CLAIMS | {"exp": value})) == "token_invalid"


def test_a_key_rotation_logs_nobody_out() -> None:
    before, _ = SessionTokens({"k1": OLD}).issue(CHANNEL, 1000.0, 3600)
    rotated = SessionTokens({"k2": NEW, "k1": OLD})
    assert rotated.verify(before, 2000.0).channel == CHANNEL
    after, _ = rotated.issue(CHANNEL, 2000.0, 3600)
    assert jwt.get_unverified_header(after)["kid"] == "k2"
    assert rotated.verify(after, 2000.0).channel == CHANNEL
    finished = SessionTokens({"k2": NEW})
    assert refused(before, finished) == "token_invalid"
    assert finished.verify(after, 2000.0).channel == CHANNEL


@pytest.mark.parametrize(
    ("given_key", "expected", "matches"),
    [
        ("secret", "secret", True),
        ("schlüssel", "schlüssel", True),
        ("Secret", "secret", False),
        ("secret ", "secret", False),
        ("", "secret", False),
        (None, "secret", False),
        ("\udcff\udc80", "secret", False),
    ],
)
def test_a_key_matches_only_itself(given_key: str | None, expected: str, matches: bool) -> None:
    """Bytes of a header that are no UTF-8 arrive as lone surrogates."""
    assert key_matches(given_key, expected) is matches


def test_a_token_for_one_thing_opens_only_that() -> None:
    token, expires_at = TOKENS.issue(CHANNEL, 1000.0, 3600, only_for="rsp_1")
    assert TOKENS.verify(token, 2000.0, only_for="rsp_1") == SessionClaims(
        CHANNEL, expires_at, 1000, only_for="rsp_1", may=TO_READ
    )
    assert refused(token) == "token_invalid"
    for wrong, thing in ((token, "rsp_2"), (TOKENS.issue(CHANNEL, 1000.0, 3600)[0], "rsp_1")):
        with pytest.raises(AuthenticationFailed) as refusal:
            TOKENS.verify(wrong, 2000.0, only_for=thing)
        assert refusal.value.code == "token_invalid"


def test_who_reads_needs_the_session_s_token_or_a_ticket_for_what_is_read() -> None:
    ticket, _ = TOKENS.issue(CHANNEL, 1000.0, 3600, only_for="rsp_1")
    token, _ = TOKENS.issue(CHANNEL, 1000.0, 3600)
    assert TOKENS.verify_for(Right.READ, ticket, 2000.0, "rsp_1").channel == CHANNEL
    assert TOKENS.verify_any(ticket, 2000.0).only_for == "rsp_1"
    assert TOKENS.verify_for(Right.READ, token, 2000.0, "rsp_1").only_for is None
    assert TOKENS.verify_any(token, 2000.0).only_for is None
    for sent, now, response_id, code in (
        (ticket, 2000.0, "rsp_2", "token_invalid"),
        (ticket, 2000.0, None, "token_invalid"),
        (ticket[:-2], 2000.0, "rsp_1", "token_invalid"),
        (token, 9000.0, "rsp_1", "token_expired"),
        (None, 2000.0, "rsp_1", "token_missing"),
    ):
        with pytest.raises(AuthenticationFailed) as refusal:
            TOKENS.verify_for(Right.READ, sent, now, response_id)
        assert refusal.value.code == code


def test_a_token_of_another_task_is_no_client_s() -> None:
    token, _ = TOKENS.issue(CHANNEL, 1000.0, 3600, only_for=for_peers("rsp_1"))
    assert TOKENS.verify(token, 2000.0, only_for=for_peers("rsp_1")).channel == CHANNEL
    with pytest.raises(AuthenticationFailed) as refusal:
        TOKENS.verify_any(token, 2000.0)
    assert refusal.value.code == "token_invalid"


@pytest.mark.parametrize(
    "may", [frozenset([Right.READ]), frozenset([Right.READ, Right.WRITE]), ALL_RIGHTS]
)
def test_a_token_may_do_what_it_was_issued_for(may: frozenset[Right]) -> None:
    token, _ = TOKENS.issue(CHANNEL, 1000.0, 3600, may=may)
    assert TOKENS.verify(token, 2000.0).may == may
    for right in Right:
        if right in may:
            assert TOKENS.verify_for(right, token, 2000.0).channel == CHANNEL
        else:
            with pytest.raises(NotPermitted, match=f"no right to {right}") as refusal:
                TOKENS.verify_for(right, token, 2000.0)
            assert refusal.value.code == "not_permitted"


def test_a_token_that_says_nothing_of_rights_has_all_and_a_ticket_only_reads() -> None:
    assert TOKENS.verify(signed(CLAIMS), 2000.0).may == ALL_RIGHTS
    assert TOKENS.verify(TOKENS.issue(CHANNEL, 1000.0, 3600)[0], 2000.0).may == ALL_RIGHTS
    ticket, _ = TOKENS.issue(CHANNEL, 1000.0, 3600, only_for="rsp_1", may=ALL_RIGHTS)
    assert TOKENS.verify_any(ticket, 2000.0).may == TO_READ
    with pytest.raises(NotPermitted):
        TOKENS.verify_for(Right.WRITE, ticket, 2000.0, "rsp_1")


def test_rights_that_only_a_newer_version_knows_are_none() -> None:
    assert TOKENS.verify(signed(CLAIMS | {"may": ["read", "fly"]}), 2000.0).may == TO_READ


def test_a_token_is_verified_once_and_expires_and_loses_its_key_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = SessionTokens({"k1": OLD})
    token = signed(CLAIMS | {"nbf": 1500})
    assert refused(token, tokens, now=1499.0) == "token_invalid"
    claims = tokens.verify(token, 1500.0)

    def signature_is_checked(*_: object) -> None:
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(session_token, "_signed_payload", signature_is_checked)
        assert tokens.verify(token, 2000.0) is claims
        assert refused(token, tokens, now=1499.0) == "token_invalid"
        assert refused(token, tokens, now=4600.0) == "token_expired"
    with pytest.raises(AuthenticationFailed):
        tokens.verify(token, 2000.0, only_for="rsp_1")
    assert refused(f"{token[:-6]}AAAAAA", tokens) == "token_invalid"
    tokens.replace_keys({"k2": NEW})
    assert refused(token, tokens) == "token_invalid"
