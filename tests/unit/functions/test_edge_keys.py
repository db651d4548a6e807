from __future__ import annotations

import json

import pytest
from aws_lambda_powertools import Logger

from evenflow.functions.http_api import EdgeKeys, parse_edge_keys
from evenflow.stream_aws.keys import KeysUnreadable
from evenflow.stream_core.base.errors import HostNotAllowed
from evenflow.stream_core.http.routes import EDGE_KEY_HEADER

OLD, NEW = "o" * 64, "n" * 64


class SecretsManager:
    """Has one secret."""

    def get_secret_value(self, **_request: str) -> dict[str, str]:
        return {"SecretString": json.dumps({"k1": OLD, "k2": NEW})}


@pytest.fixture
def keys(logger: Logger) -> EdgeKeys:
    return EdgeKeys(SecretsManager(), "edge-keys", logger)


@pytest.mark.parametrize("key", [OLD, NEW])
def test_what_cloudfront_sends_with_either_key_is_let_through(keys: EdgeKeys, key: str) -> None:
    keys.check({EDGE_KEY_HEADER: key})


@pytest.mark.parametrize("given", [None, "", OLD[:-1], OLD + "o", "\udcff", "k1"])
def test_a_direct_call_is_refused(keys: EdgeKeys, given: str | None) -> None:
    headers = {} if given is None else {EDGE_KEY_HEADER: given}
    with pytest.raises(HostNotAllowed) as refusal:
        keys.check(headers)
    assert (refusal.value.status, refusal.value.code) == (403, "host_not_allowed")
    assert OLD not in refusal.value.message


@pytest.mark.parametrize("secret", ["{", '["a"]', '{"k1": "short"}'])
def test_a_secret_that_is_none(secret: str) -> None:
    with pytest.raises(KeysUnreadable, match="edge keys"):
        parse_edge_keys(secret)
