from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from evenflow.fargate_handler.model_source import bedrock_terms
from evenflow.fargate_handler.settings.handler_settings import (
    ConfigurationError,
    HandlerSettings,
    load_settings,
)
from evenflow.fargate_handler.settings.model_values import Guardrail
from evenflow.fargate_handler.token_sources.bedrock_terms import BedrockTerms

KEY = "0123456789abcdef0123456789abcdef"
Environment = Callable[..., None]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Sets variables `EVENFLOW_…`; all others of that name are unset."""
    for name in list(os.environ):
        if name.startswith("EVENFLOW_"):
            monkeypatch.delenv(name)

    def put(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(f"EVENFLOW_{name}", value)

    return put


def refusal() -> str:
    with pytest.raises(ConfigurationError) as refused:
        load_settings()
    message = str(refused.value)
    assert "\n" not in message, "one line"
    return message


def test_without_any_variable_it_runs_on_this_machine_with_the_demo_model(
    environment: Environment,
) -> None:
    settings = load_settings()
    assert (settings.http_host, settings.http_port, settings.ws_port) == ("127.0.0.1", 8080, None)
    assert settings.model == "demo"
    assert (settings.docs / "protocol.md").is_file()
    assert settings.fallback_text == "", "an error is told as an error"


def test_keys_made_at_the_start_are_long_and_never_the_same(environment: Environment) -> None:
    first, second = load_settings().signing_keys, load_settings().signing_keys
    assert first != second
    assert all(len(secret) >= 32 for secret in first.values())


def test_every_setting_and_limit_is_a_variable(environment: Environment) -> None:
    environment(
        HTTP_PORT="9000", QUEUE_DEPTH="5", GRACE_SECONDS="0", LOG_LEVEL="debug", FALLBACK_TEXT=""
    )
    settings = load_settings()
    assert (settings.http_port, settings.queue_depth, settings.grace_seconds) == (9000, 5, 0)
    assert (settings.log_level, settings.fallback_text) == ("debug", "")


def test_every_setting_says_what_it_is() -> None:
    fields = HandlerSettings.model_fields.items()
    assert [name for name, field in fields if not field.description] == []


def test_a_misspelt_variable_is_refused_with_what_was_meant(environment: Environment) -> None:
    environment(QUEUE_DEPHT="5")
    message = refusal()
    assert "EVENFLOW_QUEUE_DEPHT" in message
    assert "EVENFLOW_QUEUE_DEPTH?" in message


def test_a_variable_that_resembles_nothing_is_refused(environment: Environment) -> None:
    environment(XYZZY="1")
    assert "EVENFLOW_XYZZY is not a setting" in refusal()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTP_PORT", "0"),
        ("HTTP_PORT", "http"),
        ("WS_PORT", "65536"),
        ("QUEUE_DEPTH", "-1"),
        ("QUEUE_DEPTH", "1.5"),
        ("BATCH_WINDOW_MS", "5"),
        ("MODEL", "gpt"),
        ("LOG_LEVEL", "loud"),
        ("PUBLIC_HTTP_URL", "no url"),
        ("HEARTBEAT_SECONDS", "nan"),
        ("TRUSTED_PROXIES", "proxy.example"),
        ("MODEL_PROFILE", "max_completion_tokens,-streaming"),
    ],
)
def test_a_wrong_value_is_refused_with_the_variable_and_the_value(
    environment: Environment, name: str, value: str
) -> None:
    environment(**{name: value})
    message = refusal()
    assert f"EVENFLOW_{name}=" in message
    assert value in message


def test_values_that_contradict_each_other_are_refused_by_their_variables(
    environment: Environment,
) -> None:
    environment(HEARTBEAT_SECONDS="100")
    message = refusal()
    assert "EVENFLOW_HEARTBEAT_SECONDS" in message
    assert "EVENFLOW_PONG_TIMEOUT_SECONDS" in message


def test_the_ports_must_differ(environment: Environment) -> None:
    environment(HTTP_PORT="9000", WS_PORT="9000")
    message = refusal()
    assert "EVENFLOW_HTTP_PORT" in message
    assert "EVENFLOW_WS_PORT" in message


@pytest.mark.parametrize("model", ["bedrock", "sagemaker"])
def test_a_model_on_aws_needs_its_name(environment: Environment, model: str) -> None:
    environment(MODEL=model)
    assert refusal().startswith(
        f"EVENFLOW_MODEL_NAME must be set when model is {model}: the name of an "
    )
    environment(MODEL=model, MODEL_NAME="a-name", MODEL_MAX_TOKENS="0")
    assert refusal().startswith("EVENFLOW_MODEL_MAX_TOKENS='0': ")
    environment(MODEL=model, MODEL_NAME="a-name", MODEL_MAX_TOKENS="2000")
    settings = load_settings()
    assert (settings.model, settings.model_name, settings.model_max_tokens) == (
        model,
        "a-name",
        2000,
    )


def test_how_bedrock_treats_calls_is_set(environment: Environment) -> None:
    bedrock = {"MODEL": "bedrock", "MODEL_NAME": "a-name"}
    environment(**bedrock)
    assert bedrock_terms(load_settings()) == BedrockTerms()
    environment(
        **bedrock,
        BEDROCK_CACHE_TTL="5m",
        BEDROCK_SERVICE_TIER="flex",
        BEDROCK_GUARDRAIL="abc123:DRAFT",
        BEDROCK_GUARDRAIL_MODE="async",
    )
    guardrail = Guardrail("abc123", "DRAFT")
    assert bedrock_terms(load_settings()) == BedrockTerms("5m", "flex", guardrail, "async")
    environment(**bedrock, BEDROCK_GUARDRAIL="abc123")
    assert refusal().startswith("EVENFLOW_BEDROCK_GUARDRAIL='abc123': must be a guardrail's id")


def test_a_mode_without_a_guardrail_is_refused(environment: Environment) -> None:
    environment(BEDROCK_GUARDRAIL_MODE="async")
    assert refusal() == "EVENFLOW_BEDROCK_GUARDRAIL_MODE needs EVENFLOW_BEDROCK_GUARDRAIL"


def test_a_model_on_aws_needs_the_sdk(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aiobotocore", None)
    environment(MODEL="bedrock", MODEL_NAME="a-name")
    assert "needs the AWS SDK" in refusal()


def test_an_openai_model_needs_its_address(environment: Environment) -> None:
    environment(MODEL="openai")
    assert "EVENFLOW_MODEL_URL" in refusal()
    environment(MODEL_URL="http://127.0.0.1:8000/v1", MODEL_NAME="m", MODEL_API_KEY="sk")
    assert load_settings().model_name == "m"


@pytest.mark.parametrize(
    ("variables", "again"),
    [
        ({}, True),
        ({"MODEL": "openai", "MODEL_URL": "http://m/v1"}, False),
        ({"MODEL": "openai", "MODEL_URL": "http://m/v1", "MODEL_CONTINUES": "true"}, True),
        ({"MODEL": "openai", "MODEL_URL": "http://m/v1", "MODEL_REPEATABLE": "true"}, True),
        ({"MODEL_REPEATABLE": "false"}, False),
    ],
)
def test_a_backend_is_asked_again_in_mid_answer_only_where_somebody_says_that_it_may_be(
    environment: Environment, variables: dict[str, str], again: bool
) -> None:
    environment(**variables)
    assert load_settings().repeats_broken_answers is again


def test_a_grpc_model_needs_its_workers(environment: Environment) -> None:
    environment(MODEL="grpc")
    assert "EVENFLOW_WORKERS must be set" in refusal()
    environment(WORKERS="10.0.0.1:50051, workers.internal:50051,")
    assert load_settings().workers == ("10.0.0.1:50051", "workers.internal:50051")


@pytest.mark.parametrize("workers", ["10.0.0.1", "a:1,b", "http://a:1/", "a:0", "a:1,a:1"])
def test_workers_that_cannot_be_asked_are_refused(environment: Environment, workers: str) -> None:
    environment(MODEL="grpc", WORKERS=workers)
    assert "EVENFLOW_WORKERS" in refusal()


def test_signing_keys_keep_their_order_and_may_hold_colons(environment: Environment) -> None:
    environment(TOKEN_KEYS=f"new:{KEY}:more,old:{KEY}")
    assert list(load_settings().signing_keys.items()) == [
        ("new", f"{KEY}:more".encode()),
        ("old", KEY.encode()),
    ]


@pytest.mark.parametrize(
    "keys",
    ["", KEY, f":{KEY}", "k1:too-short-a-secret", f"k1:{KEY},", f"k1:{KEY},k2:too-short-a-secret"],
)
def test_unreadable_signing_keys_are_refused_without_being_shown(
    environment: Environment, keys: str
) -> None:
    environment(TOKEN_KEYS=keys)
    message = refusal()
    assert "EVENFLOW_TOKEN_KEYS" in message
    assert KEY not in message
    assert "too-short-a-secret" not in message


def test_two_signing_keys_of_one_name_are_refused(environment: Environment) -> None:
    environment(TOKEN_KEYS=f"k1:{KEY},k1:{KEY[::-1]}")
    assert "EVENFLOW_TOKEN_KEYS" in refusal()


def test_tenant_keys_are_json(environment: Environment) -> None:
    environment(TENANT_KEYS='{"acme": "their-own-long-key"}')
    assert load_settings().tenant_keys["acme"].get_secret_value() == "their-own-long-key"


@pytest.mark.parametrize(
    "keys",
    [
        "their-own-long-key",
        '{"acme": their-own-long-key}',
        '["their-own-long-key"]',
        '"their-own-long-key"',
    ],
)
def test_unreadable_tenant_keys_are_refused_without_being_shown(
    environment: Environment, keys: str
) -> None:
    environment(TENANT_KEYS=keys)
    message = refusal()
    assert "EVENFLOW_TENANT_KEYS" in message
    assert "their-own-long-key" not in message


def test_an_empty_tenant_key_is_refused_because_everyone_would_have_it(
    environment: Environment,
) -> None:
    environment(TENANT_KEYS='{"acme": "short"}')
    assert "short" not in refusal().replace("shorter", "")
    environment(TENANT_KEYS='{"acme": ""}')
    assert "EVENFLOW_TENANT_KEYS" in refusal()


def test_the_tenants_keys_are_set_or_in_a_secret(environment: Environment) -> None:
    environment(TENANT_KEYS_SECRET="tenants")
    assert load_settings().uses_aws
    environment(TENANT_KEYS_SECRET="tenants", TENANT_KEYS='{"acme": "their-own-long-key"}')
    assert "EVENFLOW_TENANT_KEYS_SECRET" in refusal()
    assert "their-own-long-key" not in refusal()


def test_secrets_do_not_show_when_settings_are_printed(environment: Environment) -> None:
    environment(
        TOKEN_KEYS=f"k1:{KEY}",
        TENANT_KEYS='{"acme": "their-own-long-key"}',
        MODEL_API_KEY="sk-secret",
    )
    shown = repr(load_settings())
    assert not any(secret in shown for secret in (KEY, "their-own-long-key", "sk-secret"))


def test_several_processes_share_a_file_and_each_has_its_own_address(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5})
    assert load_settings().processes == 1
    environment(PROCESSES="auto")
    assert load_settings().processes == 3
    environment(STORE="memory")
    assert refusal() == (
        "EVENFLOW_PROCESSES above 1 needs EVENFLOW_STORE=sqlite, a file that they share: set that, "
        "or EVENFLOW_PROCESSES=1"
    )
    environment(STORE="sqlite", PEER_URL="http://10.0.0.1:8080")
    assert "EVENFLOW_PEER_URL" in refusal()
    environment(PROCESSES="all")
    assert refusal() == ("EVENFLOW_PROCESSES='all': must be a whole number from 1 to 64 or auto")


@pytest.mark.parametrize("key", ["", "short"])
def test_a_key_to_drain_is_long_and_is_never_shown(environment: Environment, key: str) -> None:
    environment(DRAIN_KEY=key)
    message = refusal()
    assert "EVENFLOW_DRAIN_KEY" in message
    assert repr(key) not in message


@pytest.mark.parametrize("port", ["9000", "9001"])
def test_the_port_for_metrics_is_one_of_its_own(environment: Environment, port: str) -> None:
    environment(HTTP_PORT="9000", WS_PORT="9001", METRICS_PORT=port)
    assert "EVENFLOW_METRICS_PORT" in refusal()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ()),
        ({"HTTP_HOST": "localhost"}, ()),
        ({"ALLOWED_HOSTS": "chat.example.com, intranet"}, ("chat.example.com", "intranet")),
        (
            {
                "PUBLIC_HTTP_URL": "https://a.example/chat",
                "PUBLIC_WS_URL": "wss://b.example/ws",
                "PEER_URL": "http://c.example:8080",
            },
            ("a.example", "b.example", "c.example"),
        ),
        ({"HTTP_HOST": "0.0.0.0"}, None),  # noqa: S104
        ({"HTTP_HOST": "0.0.0.0", "ALLOWED_HOSTS": "a.example"}, ("a.example",)),  # noqa: S104
    ],
)
def test_which_names_it_answers_to(
    environment: Environment, variables: dict[str, str], expected: tuple[str, ...] | None
) -> None:
    environment(**variables)
    assert load_settings().callable_as == expected


def test_a_wrong_name_of_a_host_is_refused(environment: Environment) -> None:
    environment(ALLOWED_HOSTS="https://a.example")
    assert "EVENFLOW_ALLOWED_HOSTS" in refusal()


def test_the_log_names_the_model_and_its_server_without_credentials(
    environment: Environment,
) -> None:
    environment(MODEL="openai", MODEL_URL="https://me:hush@llm.example.com/v1?key=hush")
    assert load_settings().described_model == "model default at https://llm.example.com/v1"
