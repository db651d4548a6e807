"""A wrong configuration: the server doesn't start, and says in one line which variable is wrong."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator

import pytest

from tests.integration.local_server import refusal
from tests.integration.server_process import ROOT, clean_environment, free_port, server_command

_SECRET = "hush-hush-hush"


async def _refused(**variables: str) -> str:
    line = await refusal(variables)
    assert _SECRET not in line
    return line


def test_the_process_prints_one_line_and_ends_with_2() -> None:
    ended = subprocess.run(
        server_command(),
        cwd=ROOT,
        env=clean_environment({"EVENFLOW_TENANT_KEYS": _SECRET, "EVENFLOW_STORE": "memory"}),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.strip().splitlines()
    assert line.startswith("evenflow: EVENFLOW_TENANT_KEYS")
    assert _SECRET not in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BATCH_WINDOW_MS", "abc"),
        ("BATCH_WINDOW_MS", ""),
        ("BATCH_WINDOW_MS", "5"),
        ("BATCH_WINDOW_MS", "50.5"),
        ("BATCH_WINDOW_MS", "500"),
        ("CONNECTIONS_PER_NODE", "0"),
        ("GRACE_SECONDS", "-1"),
        ("GRACE_SECONDS", "nan"),
        ("GRACE_SECONDS", "inf"),
        ("PONG_TIMEOUT_SECONDS", "1"),
        ("HTTP_PORT", "0"),
        ("HTTP_PORT", "65536"),
        ("HTTP_PORT", "http"),
        ("HTTP_HOST", "no.such.host.invalid"),
        ("MODEL", "gpt"),
        ("MODEL", "openai"),
        ("LOG_LEVEL", "loud"),
        ("LOG_FORMAT", "xml"),
        ("MODEL_PRICES", "small=cheap"),
        ("ALLOWED_ORIGINS", "app.example.com"),
        ("ALLOWED_ORIGINS", "https://app.example.com/chat"),
        ("ALLOWED_ORIGINS", "*,https://app.example.com"),
        ("FILTERING", "on"),
        ("FILTER_PATTERNS", "secrets,names"),
        ("FILTER_FILE", "/no/such/file"),
        ("FILTER_PYTHON", "no_such_module:Filter"),
        ("FILTER_PYTHON", "json:loads"),
        ("FILTER_GUARDRAIL", "abc"),
        ("DOCS", "/no/such/folder"),
        ("FOO", "1"),
        ("BATCH_WINDOW", "50"),
    ],
)
async def test_the_variable_is_named(name: str, value: str) -> None:
    assert f"EVENFLOW_{name}" in await _refused(**{f"EVENFLOW_{name}": value})


async def test_an_unknown_variable_close_to_a_known_one() -> None:
    assert "EVENFLOW_GRACE_SECONDS" in await _refused(EVENFLOW_GRACE_SECOND="3")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TENANT_KEYS", f'{{"acme": "{_SECRET}"'),
        ("TENANT_KEYS", f'["{_SECRET}"]'),
        ("TENANT_KEYS", f'{{"acme": ["{_SECRET}"]}}'),
        ("TENANT_KEYS", _SECRET),
        ("TENANT_KEYS", '{"acme": ""}'),
        ("TENANT_KEYS", f'{{"no tenant:name": "{_SECRET}-{_SECRET}"}}'),
        ("TOKEN_KEYS", f"k1:{_SECRET}"),
        ("TOKEN_KEYS", _SECRET * 4),
        ("TOKEN_KEYS", f":{_SECRET * 4}"),
        ("TOKEN_KEYS", f"k1:{_SECRET * 4},"),
        ("TOKEN_KEYS", f"k1:{_SECRET * 4},k1:{_SECRET * 5}"),
        ("TOKEN_KEYS", ""),
    ],
)
async def test_a_wrong_secret_is_named_and_not_printed(name: str, value: str) -> None:
    assert f"EVENFLOW_{name}" in await _refused(**{f"EVENFLOW_{name}": value})


async def test_openai_without_its_address() -> None:
    line = await _refused(EVENFLOW_MODEL="openai", EVENFLOW_MODEL_API_KEY=_SECRET)
    assert "EVENFLOW_MODEL_URL" in line
    line = await _refused(
        EVENFLOW_MODEL="openai", EVENFLOW_MODEL_URL="not an address", EVENFLOW_MODEL_API_KEY=_SECRET
    )
    assert "EVENFLOW_MODEL_URL" in line


@pytest.fixture
def busy_port() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port: int = listening.getsockname()[1]
        yield port


@pytest.mark.parametrize("name", ["HTTP_PORT", "WS_PORT"])
async def test_a_busy_port(busy_port: int, name: str) -> None:
    line = await _refused(**{f"EVENFLOW_{name}": str(busy_port)})
    assert f"EVENFLOW_{name}" in line
    assert str(busy_port) in line


async def test_the_same_port_twice() -> None:
    port = str(free_port())
    line = await _refused(EVENFLOW_HTTP_PORT=port, EVENFLOW_WS_PORT=port)
    assert "EVENFLOW_HTTP_PORT" in line
    assert "EVENFLOW_WS_PORT" in line


async def test_variables_of_others_are_ignored() -> None:
    """Only what begins with EVENFLOW_ is ours; a wrong one among right ones is the one that is
    named.
    """
    line = await _refused(
        EVENTFLOW_X="1",
        EVENFLOW_TENANT_KEYS=json.dumps({"acme": _SECRET * 2}),
        EVENFLOW_QUEUE_DEPTH="many",
    )
    assert "EVENFLOW_QUEUE_DEPTH" in line
