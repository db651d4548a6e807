"""What ECS runs in a worker's container, to learn whether it lives."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.integration.grpc_workers.conftest import Workers
from tests.integration.server_process import ROOT, clean_environment, free_port


def _probe(port: int) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "fargate_handler.inference.worker"],
        cwd=ROOT,
        env=clean_environment({"EVENFLOW_WORKER_PORT": str(port)}),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_worker_that_answers_is_alive_and_one_that_hangs_is_not(workers: Workers) -> None:
    worker = workers()
    assert _probe(worker.port) == (0, "")
    worker.process.send_signal(signal.SIGSTOP)
    status, said = _probe(worker.port)
    assert (status, "DEADLINE_EXCEEDED" in said) == (1, True)
    worker.process.send_signal(signal.SIGCONT)
    assert _probe(worker.port) == (0, "")


def test_where_nobody_listens_nothing_is_alive() -> None:
    port = free_port()
    status, said = _probe(port)
    assert (status, f"127.0.0.1:{port} doesn't answer: UNAVAILABLE" in said) == (1, True)
