from __future__ import annotations

import pytest

from evenflow.functions.settings import (
    FunctionConfigurationError,
    SessionInitSettings,
    allowed_origins,
    limits,
    required,
)
from evenflow.stream_core.base.limits import Limits

VARIABLES = {
    "EVENFLOW_EDGE_KEYS_SECRET": "arn:aws:secretsmanager:us-east-1:111111111111:secret:edge",
    "EVENFLOW_TOKEN_KEYS_SECRET": "arn:aws:secretsmanager:us-east-1:111111111111:secret:tokens",
    "EVENFLOW_TENANT_KEYS_SECRET": "arn:aws:secretsmanager:us-east-1:111111111111:secret:tenants",
    "EVENFLOW_SESSIONS_TABLE": "sessions",
    "EVENFLOW_TENANTS_TABLE": "tenants",
}


def test_a_variable_that_is_needed() -> None:
    assert required({"EVENFLOW_A_B": "x"}, "a_b") == "x"
    for environment in ({}, {"EVENFLOW_A_B": ""}, {"A_B": "x"}):
        with pytest.raises(FunctionConfigurationError, match="EVENFLOW_A_B must be set"):
            required(environment, "a_b")


def test_limits_are_the_handlers() -> None:
    assert limits({"PATH": "/bin"}) == Limits()
    assert limits({"EVENFLOW_MESSAGE_BYTES": "1024"}) == Limits(message_bytes=1024)


@pytest.mark.parametrize(
    "variables",
    [
        {"EVENFLOW_MESSAGE_BYTES": "many"},
        {"EVENFLOW_MESSAGE_BYTES": "1"},
        {"EVENFLOW_HEARTBEAT_SECONDS": "60", "EVENFLOW_PONG_TIMEOUT_SECONDS": "60"},
    ],
)
def test_a_limit_outside_its_range_is_named(variables: dict[str, str]) -> None:
    with pytest.raises(FunctionConfigurationError, match=r"message_bytes|pong_timeout_seconds"):
        limits(variables)


def test_origins_are_the_handlers() -> None:
    assert not allowed_origins({}).are_named
    assert not allowed_origins({"EVENFLOW_ALLOWED_ORIGINS": ""}).are_named
    assert allowed_origins({"EVENFLOW_ALLOWED_ORIGINS": "https://a.example"}).admits(
        "https://a.example"
    )
    with pytest.raises(
        FunctionConfigurationError, match=r"EVENFLOW_ALLOWED_ORIGINS must be .*'a\.example'"
    ):
        allowed_origins({"EVENFLOW_ALLOWED_ORIGINS": "a.example"})


def test_the_settings_of_session_init() -> None:
    settings = SessionInitSettings.from_environment(
        VARIABLES | {"EVENFLOW_SESSION_TOKEN_TTL_SECONDS": "60"}
    )
    assert settings.token_keys_secret == VARIABLES["EVENFLOW_TOKEN_KEYS_SECRET"]
    assert settings.tenant_keys_secret == VARIABLES["EVENFLOW_TENANT_KEYS_SECRET"]
    assert settings.sessions_table == "sessions"
    assert settings.tenants_table == "tenants"
    assert settings.limits.session_token_ttl_seconds == 60


@pytest.mark.parametrize("missing", sorted(VARIABLES))
def test_session_init_does_not_start_without_a_variable(missing: str) -> None:
    rest = {name: value for name, value in VARIABLES.items() if name != missing}
    with pytest.raises(FunctionConfigurationError, match=missing):
        SessionInitSettings.from_environment(rest)
