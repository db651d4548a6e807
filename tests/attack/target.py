"""The server under attack: a process at its defaults on a core of its own, and its meters."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from bench.machine import SERVER_CORE, pin
from tests.attack.tokens import KEY_ID, SECRET
from tests.integration.server_process import ServerProcess

# An answer's line costs a message that was accepted, and of readers' at most 500 a second are
# written.
_BOUNDED_EVENTS = (b'{"event":"answer"', b'{"event":"reader"')
# Of `stat`: a file may have fewer blocks than its length says.
_BLOCK_BYTES = 512


class Target(ServerProcess):
    """The server. Only where it keeps things, and the key of its tokens, are set.

    Args:
        folder: for its log and its file.
        variables: what this attack needs to be possible.
        model_port: that of its model; 0 where it has one of its own.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str], model_port: int = 0) -> None:
        self.model_port = model_port
        self.log_file = folder / "server.log"
        defaults = {
            "EVENFLOW_STORE": "sqlite",
            "EVENFLOW_STORE_PATH": str(folder / "evenflow.db"),
            "EVENFLOW_TOKEN_KEYS": f"{KEY_ID}:{SECRET}",
            "EVENFLOW_DRAIN_SECONDS": "110",
        }
        self.variables = defaults | dict(variables)
        super().__init__(self.log_file, self.variables)
        pin(SERVER_CORE, self.process.pid)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of its processes since their start."""
        server = psutil.Process(self.process.pid)
        used = 0.0
        for process in (server, *server.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                used += times.user + times.system
        return used

    @property
    def stored_bytes(self) -> int:
        """What its store takes of the disk: the SQLite file, its WAL and their like."""
        store = Path(self.variables["EVENFLOW_STORE_PATH"])
        size = 0
        for file in store.parent.glob(f"{store.name}*"):
            with suppress(FileNotFoundError):
                size += file.stat().st_blocks * _BLOCK_BYTES
        return size

    @property
    def log_bytes(self) -> int:
        """What it has logged so far."""
        return self.log_file.stat().st_size

    def log_lines(self, since: int) -> int:
        """Lines logged behind so many bytes, but for those of answers and of their readers."""
        with self.log_file.open("rb") as file:
            file.seek(since)
            return sum(not line.startswith(_BOUNDED_EVENTS) for line in file)

    def forget_peak(self) -> None:
        """From now on its peak is that of what follows."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def sockets_of(self, address: str) -> int:
        """Its established connections with this client's address."""
        connections = psutil.Process(self.process.pid).net_connections("tcp")
        return sum(1 for it in connections if it.raddr and it.raddr.ip == address)
