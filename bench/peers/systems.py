"""The systems that are compared, with their versions, and what isn't the default in each."""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from bench.peers.start import (
    FOLDER,
    NGINX_MODULES,
    PACKAGES,
    Running,
    durable_streams,
    evenflow_completions,
    evenflow_websocket,
    litellm,
    nchan,
    nginx,
    nothing,
    portkey,
    resumable_stream,
    socket_io,
)
from tests.integration.stock_clients.clients import node, python_of


@dataclass(frozen=True)
class System:
    """One of those that are compared."""

    key: str
    name: str
    version: Callable[[], str]
    start: Callable[[int], AbstractAsyncContextManager[Running]]  # with the model's port
    settings: str  # each that isn't the default, and why
    missing: Callable[[], str | None] = lambda: None  # what isn't installed, and how to
    resumes: bool = False
    grace_seconds: float = 0.0  # for which it waits for a reader before it lets the model go


def _npm_version(*names: str) -> Callable[[], str]:
    def read() -> str:
        lock = json.loads((FOLDER / "package-lock.json").read_text("utf-8"))
        versions = (lock["packages"][f"node_modules/{name}"]["version"] for name in names)
        return ", ".join(versions) + f" (Node {_output(str(node()), '--version')[1:]})"

    return read


def _debian_version(*packages: str) -> str:
    return ", ".join(_output("dpkg-query", "-W", "-f", "${Version}", name) for name in packages)


def _output(*command: str) -> str:
    """What a command says; "unknown version" where there is no such command, or it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return "unknown version"
    return done.stdout.strip()


def _litellm_version() -> str:
    python = str(python_of("litellm"))
    return _output(python, "-c", "from importlib.metadata import version as v; print(v('litellm'))")


def _evenflow_version() -> str:
    return _output("git", "-C", str(FOLDER), "rev-parse", "--short", "HEAD")


def _needs_node() -> str | None:
    if not PACKAGES.is_dir():
        return f"npm ci in bench/{FOLDER.name}"
    try:
        node()
    except ValueError:
        return "make .build/clients/.installed (it brings Node.js)"
    return None


def _needs_litellm() -> str | None:
    return None if python_of("litellm").exists() else "make .build/litellm/.installed"


def _needs_programs(*names: str) -> Callable[[], str | None]:
    """Programs that Debian's packages of the same name bring."""

    def missing() -> str | None:
        absent = [name for name in names if not shutil.which(name)]
        return f"apt-get install {' '.join(absent)}" if absent else None

    return missing


def _needs_nchan() -> str | None:
    if shutil.which("nginx") and (NGINX_MODULES / "ngx_nchan_module.so").exists():
        return _needs_node()
    return "apt-get install nginx libnginx-mod-nchan"


EVENFLOW_SETTINGS = (
    "Defaults, but for the limits on counts (connections, generations, queue, sessions), which are "
    "raised above the load."
)
SYSTEMS: Sequence[System] = (
    System(
        "direct",
        "no server between",
        lambda: "",
        nothing,
        "The load asks the model itself: what it and the load cost, which share a core.",
    ),
    System(
        "evenflow",
        "Evenflow, /v1",
        _evenflow_version,
        evenflow_completions,
        EVENFLOW_SETTINGS + " Resumes: the same request with its Idempotency-Key and "
        "Last-Event-ID. Readers who leave have no key; with one the answer goes on.",
        resumes=True,
    ),
    System(
        "evenflow-websocket",
        "Evenflow, WebSocket",
        _evenflow_version,
        evenflow_websocket,
        EVENFLOW_SETTINGS
        + " Subprotocol evenflow.v1; resumes with response.resume. EVENFLOW_GRACE_SECONDS=30: by "
        "default an answer goes on without a reader.",
        resumes=True,
        grace_seconds=30.0,
    ),
    System(
        "litellm",
        "LiteLLM proxy",
        _litellm_version,
        litellm,
        "As its Production Best Practices: a master key, request_timeout 600, set_verbose false, "
        "json_logs, LITELLM_LOG=ERROR, LITELLM_MODE=PRODUCTION; one worker; without a database; "
        "its cost map from the package.",
        _needs_litellm,
    ),
    System(
        "portkey",
        "Portkey gateway",
        _npm_version("@portkey-ai/gateway"),
        portkey,
        "Defaults; --headless (without its console); the model by x-portkey-provider and "
        "x-portkey-custom-host.",
        _needs_node,
    ),
    System(
        "nginx",
        "nginx",
        lambda: _debian_version("nginx"),
        nginx,
        "A plain relay: proxy_buffering off, HTTP/1.1 to the model; one worker, 20,000 "
        "connections, no access log.",
        _needs_programs("nginx"),
    ),
    System(
        "nchan",
        "nginx with nchan",
        lambda: _debian_version("nginx", "libnginx-mod-nchan"),
        nchan,
        "A producer (Node, in the figures) publishes each event over HTTP, readers subscribe as "
        "EventSource: oldest message first, 10,000 messages kept for 5 minutes (default: 10 and "
        "1 hour), one worker, no access log. Resumes: Last-Event-ID.",
        _needs_nchan,
        resumes=True,
    ),
    System(
        "durable-streams",
        "Durable Streams",
        _npm_version("@durable-streams/server"),
        durable_streams,
        "The reference server, in memory (default), and a producer (Node, in the figures) with "
        "its client's IdempotentProducer; readers live=sse. Resumes: the last streamNextOffset.",
        _needs_node,
        resumes=True,
    ),
    System(
        "resumable-stream",
        "resumable-stream",
        _npm_version("resumable-stream", "redis"),
        resumable_stream,
        "Usage with explicit resumption behind Node's HTTP server; Redis without snapshots, on the "
        "same core (in the figures). Resumes: resumeAt, the characters received.",
        lambda: _needs_node() or _needs_programs("redis-server")(),
        resumes=True,
    ),
    System(
        "socket-io",
        "socket.io",
        _npm_version("socket.io"),
        socket_io,
        "connectionStateRecovery on (two minutes, its default), in memory; WebSocket only; an "
        "event for each token. Resumes: pid and offset, as its client does.",
        _needs_node,
        resumes=True,
    ),
)
