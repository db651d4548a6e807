"""Variables as Kubernetes, secrets, editors and `--env-file` bring them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evenflow.fargate_handler.settings.handler_settings import (
    ConfigurationError,
    load_settings,
    read_agents,
)
from evenflow.opened_store import server_variable

_KEY = "0123456789abcdef0123456789abcdef"
_TYPOGRAPHIC = "0123456789abcdef\u20130123456789abcdef"
Environment = Callable[..., None]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Sets variables by their whole names; all others of ours are unset."""
    for name in list(os.environ):
        if name.startswith("EVENFLOW_"):
            monkeypatch.delenv(name)

    def put(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put


def _refusal() -> str:
    with pytest.raises(ConfigurationError) as refused:
        load_settings()
    message = str(refused.value)
    assert "\n" not in message, "one line"
    return message


def _links(service: str, port: int) -> dict[str, str]:
    """What Kubernetes writes of a service (kubelet's `envvars.FromServices`)."""
    link = f"tcp://10.96.0.12:{port}"
    of_port = f"{service}_PORT_{port}_TCP"
    return {
        f"{service}_SERVICE_HOST": "10.96.0.12",
        f"{service}_SERVICE_PORT": str(port),
        f"{service}_SERVICE_PORT_HTTP": str(port),
        f"{service}_PORT": link,
        of_port: link,
        f"{of_port}_PROTO": "tcp",
        f"{of_port}_PORT": str(port),
        f"{of_port}_ADDR": "10.96.0.12",
    }


@pytest.mark.parametrize(
    "service",
    [
        *("EVENFLOW", "EVENFLOW_HTTP", "EVENFLOW_WS", "EVENFLOW_METRICS", "EVENFLOW_WORKER"),
        *("EVENFLOW_2", "EVENFLOW_A_B"),
    ],
)
def test_what_kubernetes_writes_of_a_service_is_no_setting(
    environment: Environment, service: str
) -> None:
    environment(**_links(service, 9090), EVENFLOW_QUEUE_DEPTH="7")
    settings = load_settings()
    assert settings.queue_depth == 7
    assert (settings.http_port, settings.ws_port, settings.metrics_port, settings.worker_port) == (
        8080,
        None,
        None,
        50051,
    )


def test_a_service_of_ipv6_and_udp_is_none_either(environment: Environment) -> None:
    environment(
        EVENFLOW_SERVICE_HOST="fd00::12",
        EVENFLOW_PORT="udp://[fd00::12]:53",
        EVENFLOW_PORT_53_UDP="udp://[fd00::12]:53",
        EVENFLOW_PORT_53_UDP_PROTO="udp",
        EVENFLOW_PORT_53_UDP_ADDR="fd00::12",
    )
    assert load_settings().http_port == 8080


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EVENFLOW_PORT", "8080"),
        ("EVENFLOW_HTP_PORT", "8080"),
        ("EVENFLOW_SERVICE_HOST", "chat.example.com"),
        ("EVENFLOW_SERVICE_PORT", "http"),
        ("EVENFLOW_PORT_80_TCP", "80"),
        ("EVENFLOW_METRICS_PORTS", "tcp://10.96.0.13:9090"),
    ],
)
def test_what_only_resembles_it_is_a_misspelling(
    environment: Environment, name: str, value: str
) -> None:
    environment(**{name: value})
    assert f"{name} is not a setting" in _refusal()


def test_the_port_of_all_is_ignored_only_with_the_rest_of_its_service(
    environment: Environment,
) -> None:
    environment(EVENFLOW_HTTP_PORT="tcp://10.0.0.1:8080")
    message = _refusal()
    assert "EVENFLOW_HTTP_PORT='tcp://10.0.0.1:8080'" in message
    assert "Kubernetes" in message


@pytest.mark.parametrize("added", ["\n", "\r\n", "  ", "\t\n", "\u00a0"])
def test_white_space_behind_a_value_is_cut(environment: Environment, added: str) -> None:
    environment(
        EVENFLOW_MODEL="openai" + added,
        EVENFLOW_MODEL_URL="http://127.0.0.1:9/v1" + added,
        EVENFLOW_MODEL_NAME="m" + added,
        EVENFLOW_MODEL_API_KEY="sk-abc" + added,
        EVENFLOW_HTTP_PORT="8081" + added,
        EVENFLOW_TOKEN_KEYS=f"k1:{_KEY}{added}",
        EVENFLOW_TENANT_KEYS=json.dumps({"acme": _KEY + added}) + added,
        EVENFLOW_STORE="memory" + added,
    )
    settings = load_settings()
    assert str(settings.model_url) == "http://127.0.0.1:9/v1"
    assert (settings.model_name, settings.http_port) == ("m", 8081)
    assert settings.model_api_key is not None
    assert settings.model_api_key.get_secret_value() == "sk-abc"
    assert settings.signing_keys == {"k1": _KEY.encode()}
    assert settings.keys_of_tenants == {"acme": _KEY}
    assert server_variable("store") == "memory"


def test_a_byte_order_mark_before_a_value_or_a_name_is_cut(environment: Environment) -> None:
    environment(
        **{"\ufeffEVENFLOW_HTTP_PORT": "8081"},
        EVENFLOW_MODEL_API_KEY="\ufeffsk-abc",
        EVENFLOW_TENANT_KEYS="\ufeff" + json.dumps({"acme": _KEY}),
    )
    settings = load_settings()
    assert settings.http_port == 8081
    assert settings.model_api_key is not None
    assert settings.model_api_key.get_secret_value() == "sk-abc"
    assert settings.keys_of_tenants == {"acme": _KEY}


@pytest.mark.parametrize("secret", [f"{_KEY}\n{_KEY}", f"{_KEY}\r{_KEY}", _TYPOGRAPHIC])
@pytest.mark.parametrize("name", ["MODEL_API_KEY", "DRAIN_KEY", "TOKEN_KEYS", "TENANT_KEYS"])
def test_a_secret_that_no_header_carries_is_refused_by_its_name(
    environment: Environment, name: str, secret: str
) -> None:
    value = {"TOKEN_KEYS": f"k1:{secret}", "TENANT_KEYS": json.dumps({"acme": secret})}
    variable = f"EVENFLOW_{name}"
    environment(**{variable: value.get(name, secret)})
    message = _refusal()
    assert variable in message
    assert "Latin-1" in message
    assert _KEY not in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODEL_URL", '"http://127.0.0.1:9/v1"'),
        ("MODEL_API_KEY", "'sk-abc'"),
        ("MODEL_NAME", '"m"\n'),
        ("STORE_PATH", "'/var/lib/evenflow.db'"),
    ],
)
def test_a_value_in_quotation_marks_is_refused(
    environment: Environment, name: str, value: str
) -> None:
    environment(**{f"EVENFLOW_{name}": value})
    message = _refusal()
    assert f"EVENFLOW_{name} has quotation marks" in message
    assert "sk-abc" not in message


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_an_agents_file_may_begin_with_a_byte_order_mark(
    environment: Environment, tmp_path: Path, mark: bytes
) -> None:
    file = tmp_path / "agents.toml"
    file.write_bytes(mark + '[support]\r\ninstructions = "Größe"\r\n'.encode())
    environment(EVENFLOW_AGENTS=str(file))
    assert read_agents(load_settings())["support"].instructions == "Größe"
