"""One handler process and the links by which it is reached and reaches others."""

from __future__ import annotations

import asyncio
import http.client
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from bench.metrics_page import MetricsPage
from bench.processes import end_with_parent
from tests.integration.server_process import ROOT, clean_environment, free_ports, server_command

DRAIN_KEY = "the key of the campaign"
"""What each node's `POST /drain` needs."""

_START_SECONDS = 60.0
_LOOK_SECONDS = 0.05


class Node:
    """A place for a handler: its port stays when the process is another one.

    Args:
        environment: of each process here.
        folder: for its logs.
    """

    def __init__(self, name: str, environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.node_id = ""
        """Of the process that runs now, as WSID names it."""
        self.port, self.client_port, self.peer_port, self.store_port = free_ports(4)
        self.starts = 0
        self.peak_bytes = 0
        self._folder = folder
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def client_link(self) -> str:
        """Between the load balancer and this node."""
        return f"client-{self.name}"

    @property
    def peer_link(self) -> str:
        """By which other nodes reach this one."""
        return f"peer-{self.name}"

    @property
    def store_link(self) -> str:
        """Between this node and the store."""
        return f"store-{self.name}"

    @property
    def links(self) -> dict[str, tuple[int, int]]:
        """Name → where it listens and where it leads, of those that lead here."""
        return {
            self.client_link: (self.client_port, self.port),
            self.peer_link: (self.peer_port, self.port),
        }

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The one that runs."""
        assert self._process is not None
        return self._process

    @property
    def log(self) -> Path:
        """Of the process that runs, or ran last."""
        return self._folder / f"node-{self.name}-{self.starts}.log"

    async def start(self) -> None:
        """Start a process, and return when it serves."""
        self.starts += 1
        self._process = self._spawn()
        give_up_at = time.monotonic() + _START_SECONDS
        while "serving http" not in self.log.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() > give_up_at:
                raise RuntimeError(
                    f"node {self.name} did not start:\n"
                    f"{self.log.read_text(errors='replace')[-3000:]}"
                )
            await asyncio.sleep(_LOOK_SECONDS)
        self.node_id = await asyncio.to_thread(self._ask_node_id)

    def _spawn(self) -> subprocess.Popen[bytes]:
        ports = {
            "EVENFLOW_HTTP_PORT": str(self.port),
            "EVENFLOW_DRAIN_KEY": DRAIN_KEY,
            "EVENFLOW_PEER_URL": f"http://127.0.0.1:{self.peer_port}",
            "AWS_ENDPOINT_URL_DYNAMODB": f"http://127.0.0.1:{self.store_port}",
        }
        with self.log.open("wb") as output:
            return subprocess.Popen(
                server_command(),
                cwd=ROOT,
                env=clean_environment({**self._environment, **ports}),
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - no thread of ours holds a lock here
            )

    def send(self, number: signal.Signals) -> None:
        """Signal the process."""
        self.process.send_signal(number)

    async def ended(self, seconds: float) -> int | None:
        """Its exit status; None when it hasn't ended within so long."""
        with suppress(subprocess.TimeoutExpired):
            return await asyncio.to_thread(self.process.wait, seconds)
        return None

    def kill(self) -> None:
        """End it now, if there is one."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def measure(self) -> int:
        """Its resident memory, which also counts for the peak."""
        with suppress(psutil.Error, AssertionError):
            size = int(psutil.Process(self.process.pid).memory_info().rss)
            self.peak_bytes = max(self.peak_bytes, size)
            return size
        return 0

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str, bytes]:
        """A call to its own port: status, Set-Cookie, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Set-Cookie") or "", answer.read()
        finally:
            connection.close()

    async def metrics(self) -> MetricsPage:
        """Its `/metrics`.

        Raises:
            OSError: no process answers.
        """
        _, _, page = await asyncio.to_thread(self.request, "GET", "/metrics")
        return MetricsPage(page.decode())

    def _ask_node_id(self) -> str:
        # Any answer that is meant for clients names it.
        _, cookie, _ = self.request("GET", "/chat/message/nobody")
        return cookie.partition("WSID=")[2].partition(";")[0]
