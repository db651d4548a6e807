"""Which calls go through a forward proxy."""

from __future__ import annotations

import os

import pytest

from evenflow.fargate_handler.settings.forward_proxy import except_loopback, forward_proxy
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError

_PROXY = "http://proxy.corp:3128"
_MODEL = "https://model.example.com/v1"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def test_without_variables_calls_are_direct() -> None:
    assert forward_proxy(_MODEL) is None


@pytest.mark.parametrize(
    ("variable", "url", "goes"),
    [
        ("HTTPS_PROXY", _MODEL, True),
        ("https_proxy", _MODEL, True),
        ("HTTP_PROXY", _MODEL, False),
        ("HTTP_PROXY", "http://model.example.com:8000/v1", True),
        ("ALL_PROXY", _MODEL, True),
        ("all_proxy", "http://model.example.com:8000/v1", True),
    ],
)
def test_each_scheme_has_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str, goes: bool
) -> None:
    monkeypatch.setenv(variable, _PROXY)
    assert forward_proxy(url) == (_PROXY if goes else None)


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "127.0.0.2", "[::1]", "model.localhost"]
)
def test_this_machine_is_called_directly(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("HTTP_PROXY", _PROXY)
    assert forward_proxy(f"http://{host}:8000/v1") is None


@pytest.mark.parametrize(
    ("url", "no_proxy", "goes"),
    [
        (_MODEL, "example.com", False),
        (_MODEL, ".example.com", False),
        (_MODEL, "other.com, model.example.com", False),
        (_MODEL, "model.example.com:443", False),
        (_MODEL, "model.example.com:8443", True),
        (_MODEL, "ample.com", True),
        (_MODEL, "*", False),
        ("https://10.1.2.3/v1", "10.0.0.0/8", False),
        ("https://10.1.2.3/v1", "10.1.2.3", False),
        ("https://11.1.2.3/v1", "10.0.0.0/8,.svc", True),
        ("https://[fd00::1]/v1", "fd00::/8", False),
    ],
)
def test_no_proxy_makes_exceptions(
    monkeypatch: pytest.MonkeyPatch, url: str, no_proxy: str, goes: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", _PROXY)
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert forward_proxy(url) == (_PROXY if goes else None)


@pytest.mark.parametrize(("named", "proxy"), [("proxy.corp:3128", _PROXY), (f"{_PROXY}\n", _PROXY)])
def test_an_address_may_lack_its_scheme(
    monkeypatch: pytest.MonkeyPatch, named: str, proxy: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", named)
    assert forward_proxy(_MODEL) == proxy


@pytest.mark.parametrize(
    "named", ["socks5://u:hidden@proxy.corp:1080", "http://", "http://proxy.corp:port"]
)
def test_a_proxy_that_cannot_be_used_is_refused_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", named)
    with pytest.raises(ConfigurationError, match=r"ALL_PROXY.*model\.example\.com") as refused:
        forward_proxy(_MODEL)
    assert "hidden" not in str(refused.value)
    assert forward_proxy("http://127.0.0.1:8000/v1") is None


@pytest.mark.parametrize("no_proxy", ["", "corp.example"])
def test_libraries_are_told_of_this_machine(monkeypatch: pytest.MonkeyPatch, no_proxy: str) -> None:
    monkeypatch.setenv("HTTP_PROXY", _PROXY)
    monkeypatch.setenv("NO_PROXY", no_proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    except_loopback()
    expected = [*filter(None, [no_proxy]), "localhost", "127.0.0.1", "::1"]
    assert os.environ["NO_PROXY"].split(",") == os.environ["no_proxy"].split(",") == expected
    monkeypatch.delenv("no_proxy")
