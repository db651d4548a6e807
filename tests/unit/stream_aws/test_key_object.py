from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_aws.keys import (
    KeysUnreadable,
    parse_key_object,
    parse_signing_keys,
    parse_tenant_keys,
)
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel

KEY, OTHER = "k" * 32, "o" * 32


@given(st.dictionaries(st.text(min_size=1), st.text(min_size=32), max_size=5))
def test_what_is_written_is_read_in_its_order(keys: dict[str, str]) -> None:
    read = parse_key_object(json.dumps(keys), called="keys", shortest=32)
    assert list(read.items()) == list(keys.items())


@pytest.mark.parametrize(
    ("secret_string", "said"),
    [
        ("", "is not JSON"),
        (f'{{"a": "{KEY}"', "is not JSON"),
        (f'["{KEY}"]', "not a JSON object"),
        (f'"{KEY}"', "not a JSON object"),
        ("null", "not a JSON object"),
        (f'{{"": "{KEY}"}}', "entry 1 of the keys has no name"),
        (f'{{"a": "{KEY}", "a": "{OTHER}"}}', "entry 2 of the keys has the name of an earlier one"),
        (
            f'{{"a": "{KEY}", "b": "{OTHER[1:]}"}}',
            "entry 2 of the keys is not a string of 32 characters or more",
        ),
        (f'{{"a": ["{KEY}"]}}', "entry 1 of the keys is not a string"),
        (f'{{"a": {{"b": "{KEY}"}}}}', "entry 1 of the keys is not a string"),
        (f'{{"{KEY}": "a"}}', "entry 1 of the keys is not a string"),
    ],
)
def test_what_is_wrong_is_said_and_never_a_key(secret_string: str, said: str) -> None:
    with pytest.raises(KeysUnreadable) as refusal:
        parse_key_object(secret_string, called="keys", shortest=32)
    assert said in str(refusal.value)
    assert KEY not in str(refusal.value)
    assert OTHER[1:] not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def test_signing_keys_are_what_session_tokens_take() -> None:
    tokens = SessionTokens(parse_signing_keys(f'{{"k2": "{OTHER}", "k1": "{KEY}"}}'))
    token, _ = tokens.issue(Channel("t", "a", "s"), 0, 60)
    assert SessionTokens({"k2": OTHER.encode()}).verify(token, 0).channel.session == "s"


@pytest.mark.parametrize("secret_string", ["{}", f'{{"k1": "{KEY[1:]}"}}'])
def test_signing_keys_are_at_least_one_and_long_enough(secret_string: str) -> None:
    with pytest.raises(KeysUnreadable):
        parse_signing_keys(secret_string)


def test_tenants_may_have_no_keys_but_no_short_ones() -> None:
    assert parse_tenant_keys("{}") == {}
    assert parse_tenant_keys('{"acme": "0123456789abcdef"}') == {"acme": "0123456789abcdef"}
    with pytest.raises(KeysUnreadable, match="tenant keys is not a string of 16"):
        parse_tenant_keys('{"acme": "0123456789abcde"}')


@pytest.mark.parametrize("name", ["Acme Limited", "acme:openai", "a" * 65, "acme\n"])
def test_a_tenant_has_a_name_with_which_it_can_come(name: str) -> None:
    with pytest.raises(KeysUnreadable, match="entry 2 of the tenant keys has a name") as refusal:
        parse_tenant_keys(json.dumps({"zeta": KEY, name: OTHER}))
    assert name not in str(refusal.value)
