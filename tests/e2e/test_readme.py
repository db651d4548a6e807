"""Every command of the README is run as it stands, with other ports where 8080 might be taken."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.readme_snippets import blocks, languages
from tests.integration.server_process import ROOT, ServerProcess, free_port

COMMANDS = blocks("sh")
# They run this very test, or for minutes: that they exist and know what to do is checked without doing it.
RUN_ELSEWHERE = (
    "make test",
    "make check",
    "make bench",
    "make chaos",
    "make synth ENV=dev",
    "make deploy ENV=dev",
    "make run-aws",
)
IN_THE_BROWSERS_TESTS = ("cd web && npm pack",)  # test_other_origins


def _served(command: str, tmp_path: Path) -> int:
    """Run a command that serves; returns the status of its page, and ends it."""
    http_port, ws_port = free_port(), free_port()
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", f"{command} HTTP_PORT={http_port} WS_PORT={ws_port}"],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            give_up_at = time.monotonic() + 50
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/") as answer:
                        status: int = answer.status
                        return status
                except OSError:
                    assert time.monotonic() < give_up_at, (tmp_path / "log").read_text()
                    time.sleep(0.1)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.endswith("make run")])
def test_what_serves_serves_the_page(command: str, tmp_path: Path) -> None:
    assert _served(command, tmp_path) == 200


def test_the_three_calls_stream_an_answer(server: ServerProcess) -> None:
    calls = [c for c in COMMANDS if "curl" in c and "/v1/" not in c]
    assert len(calls) == 3
    script = "\n".join(["set -euo pipefail", *calls]).replace("http://127.0.0.1:8080", server.http_url)
    streamed = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=50, check=True).stdout
    assert streamed.count("event: chat.response.delta") > 10
    assert "event: chat.response.completed" in streamed


def test_openais_api_streams_an_answer(server: ServerProcess) -> None:
    [call] = [c for c in COMMANDS if "/v1/" in c]
    script = call.replace("http://127.0.0.1:8080", server.http_url)
    streamed = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=50, check=True).stdout
    assert streamed.count("chat.completion.chunk") > 10
    assert streamed.rstrip().endswith("data: [DONE]")


def test_code_for_openais_api_prints_an_answer(server: ServerProcess) -> None:
    [code] = blocks("python")
    code = code.replace("http://127.0.0.1:8080", server.http_url)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert len(ran.stdout.split()) > 20
    assert not ran.stderr


@pytest.mark.parametrize("command", RUN_ELSEWHERE)
def test_the_other_targets_know_what_to_do(command: str) -> None:
    assert command in COMMANDS
    planned = subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert any(tool in planned.stdout for tool in ("python -m", "bin/cdk synth"))


def test_no_command_of_the_readme_is_left_out() -> None:
    elsewhere = RUN_ELSEWHERE + IN_THE_BROWSERS_TESTS
    run = [c for c in COMMANDS if c.endswith("make run") or "curl" in c or c in elsewhere]
    assert sorted(run) == sorted(COMMANDS)
    assert languages() == {"sh", "python", "html", "js"}  # test_other_origins has the last two
