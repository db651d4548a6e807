"""A worker that is configured wrongly doesn't start, and says in one line which variable is wrong."""

from __future__ import annotations

import socket
import subprocess

import pytest

from tests.integration.server_process import ROOT, clean_environment, free_port, server_command


def _refusal(**variables: str) -> str:
    ended = subprocess.run(
        [*server_command(), "--role", "worker"],
        cwd=ROOT,
        env=clean_environment({"EVENFLOW_WORKER_PORT": str(free_port())} | variables),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    lines = ended.stderr.strip().splitlines()
    assert len(lines) == 1, ended.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("name", "value"), [("MODEL", "openai"), ("WORKER_PORT", "0"), ("WORKER_BUFFER_TOKENS", "0"), ("WORKER_PROT", "1")]
)
def test_the_variable_is_named(name: str, value: str) -> None:
    assert f"EVENFLOW_{name}" in _refusal(**{f"EVENFLOW_{name}": value})


def test_a_worker_of_workers_is_refused() -> None:
    line = _refusal(EVENFLOW_MODEL="grpc", EVENFLOW_WORKERS="127.0.0.1:50051")
    assert "EVENFLOW_MODEL=grpc" in line


def test_a_busy_port() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = str(listening.getsockname()[1])
        line = _refusal(EVENFLOW_WORKER_PORT=port)
    assert f"EVENFLOW_WORKER_PORT={port}" in line
    assert "EVENFLOW_WORKER_HOST" in line


def test_another_role_does_not_exist() -> None:
    ended = subprocess.run(
        [*server_command(), "--role", "wroker"], cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
    )
    assert ended.returncode == 2
    assert "handler, worker" in ended.stderr.replace("'", "")
