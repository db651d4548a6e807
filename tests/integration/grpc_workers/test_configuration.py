"""A worker that is configured wrongly doesn't start, and says in one line which variable is
wrong.
"""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from evenflow.fargate_handler import __main__ as program
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError
from tests.integration.grpc_workers.workers import WorkerInLoop
from tests.integration.server_process import ROOT, clean_environment, server_command


async def _refusal(**variables: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        await WorkerInLoop(variables).start()
    line = str(refused.value)
    assert "\n" not in line
    return line


def test_the_process_prints_one_line_and_ends_with_2() -> None:
    ended = subprocess.run(
        [*server_command(), "--role", "worker"],
        cwd=ROOT,
        env=clean_environment({"EVENFLOW_WORKER_PORT": "0"}),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.strip().splitlines()
    assert "EVENFLOW_WORKER_PORT" in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODEL", "openai"),
        ("WORKER_PORT", "0"),
        ("WORKER_BUFFER_TOKENS", "0"),
        ("WORKER_PROT", "1"),
    ],
)
async def test_the_variable_is_named(name: str, value: str) -> None:
    assert f"EVENFLOW_{name}" in await _refusal(**{f"EVENFLOW_{name}": value})


async def test_a_worker_of_workers_is_refused() -> None:
    line = await _refusal(EVENFLOW_MODEL="grpc", EVENFLOW_WORKERS="127.0.0.1:50051")
    assert "EVENFLOW_MODEL=grpc" in line


async def test_a_busy_port() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = str(listening.getsockname()[1])
        line = await _refusal(EVENFLOW_WORKER_PORT=port)
    assert f"EVENFLOW_WORKER_PORT={port}" in line
    assert "EVENFLOW_WORKER_HOST" in line


def test_another_role_does_not_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evenflow.fargate_handler", "--role", "wroker"])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 2
    assert "handler, worker" in capsys.readouterr().err.replace("'", "")
