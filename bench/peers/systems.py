"""The systems that are compared: how each is started, with which settings, and how it is read."""

import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version as package_version
from pathlib import Path
from signal import SIGTERM
from tempfile import TemporaryDirectory

from bench.evenflow import Evenflow, evenflow
from bench.peers.readers import (
    Call,
    EvenflowReader,
    HttpReader,
    HttpSystem,
    Position,
    Question,
    Reader,
    SocketIoReader,
    get,
    post,
)
from bench.processes import Child, program
from bench.sessions import session_tokens
from tests.integration.server_process import free_port, free_ports
from tests.integration.stock_clients.clients import node, python_of

FOLDER = Path(__file__).parent
SERVERS = FOLDER / "servers"
PACKAGES = FOLDER / "node_modules"
NGINX_MODULES = Path("/usr/lib/nginx/modules")
LITELLM_KEY = "sk-bench"
COMPLETIONS = "/v1/chat/completions"

MakeReader = Callable[[Question], Reader]


@dataclass(frozen=True)
class Running:
    """A started system: its processes by name, and what reads an answer from it."""

    processes: dict[str, Child]
    reader: MakeReader
    leaver: MakeReader | None = None  # one that will not come back, where it asks in another way


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


# Without anything between, and as a relay -----------------------------------------------------


@asynccontextmanager
async def _nothing(model_port: int) -> AsyncIterator[Running]:
    yield Running({}, _completions(model_port))


@asynccontextmanager
async def _litellm(model_port: int) -> AsyncIterator[Running]:
    port = free_port()
    command = [
        *(
            str(python_of("litellm").with_name("litellm")),
            "--config",
            str(SERVERS / "litellm.yaml"),
        ),
        *("--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"),
    ]
    environment = {
        "MODEL_URL": f"http://127.0.0.1:{model_port}/v1",
        "LITELLM_MASTER_KEY": LITELLM_KEY,
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    async with program(command, ports=(port,), environment=environment) as server:
        yield Running({"proxy": server}, _completions(port, f"Authorization: Bearer {LITELLM_KEY}"))


@asynccontextmanager
async def _portkey(model_port: int) -> AsyncIterator[Running]:
    port = free_port()
    script = PACKAGES / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    command = [str(node()), str(script), f"--port={port}", "--headless"]
    headers = (
        "x-portkey-provider: openai",
        f"x-portkey-custom-host: http://127.0.0.1:{model_port}/v1",
        "Authorization: Bearer none",
    )
    async with program(command, ports=(port,), environment={"NODE_ENV": "production"}) as server:
        yield Running({"gateway": server}, _completions(port, *headers))


@asynccontextmanager
async def _nginx(model_port: int) -> AsyncIterator[Running]:
    async with _nginx_server("nginx.conf", model_port) as (server, port):
        yield Running({"nginx": server}, _completions(port))


def _completions(port: int, *headers: str) -> MakeReader:
    system = HttpSystem(
        lambda question: post(port, COMPLETIONS, question.request, *headers),
    )
    return lambda question: HttpReader(system, question)


# Evenflow -------------------------------------------------------------------------------------


@asynccontextmanager
async def _evenflow(model_port: int) -> AsyncIterator[Evenflow]:
    async with evenflow(
        model="openai", model_name="bench", model_url=f"http://127.0.0.1:{model_port}/v1"
    ) as server:
        yield server


@asynccontextmanager
async def _evenflow_completions(model_port: int) -> AsyncIterator[Running]:
    async with _evenflow(model_port) as server:
        port = int(server.http_url.rpartition(":")[2])

        def call(question: Question, *headers: str) -> Call:
            key = f"Idempotency-Key: {question.id}"
            return post(port, COMPLETIONS, question.request, key, *headers)

        def rest(question: Question, position: Position) -> Call:
            event_id = position.event.id if position.event else None
            return call(question, *([f"Last-Event-ID: {event_id}"] if event_id else []))

        system = HttpSystem(call, rest)
        yield Running(
            {"handler": server.process},
            lambda question: HttpReader(system, question),
            _completions(port),  # without a key
        )


@asynccontextmanager
async def _evenflow_websocket(model_port: int) -> AsyncIterator[Running]:
    async with _evenflow(model_port) as server:

        def reader(question: Question) -> Reader:
            (token,) = session_tokens(1)
            headers = {
                "Authorization": f"Bearer {token}",
                "Sec-WebSocket-Protocol": "evenflow.v1",
            }
            return EvenflowReader(server.ws_url, question, headers)

        yield Running({"handler": server.process}, reader)


# Systems that keep what was sent --------------------------------------------------------------


@asynccontextmanager
async def _nchan(model_port: int) -> AsyncIterator[Running]:
    producer_port = free_port()
    async with AsyncExitStack() as stack:
        nginx, port = await stack.enter_async_context(_nginx_server("nchan.conf", model_port))
        producer = await stack.enter_async_context(
            _glue("nchan_producer", model_port, producer_port, NCHAN_URL=f"http://127.0.0.1:{port}")
        )

        def read(question: Question, position: Position | None = None) -> Call:
            event = position and position.event
            last = [f"Last-Event-ID: {event.id}"] if event else []
            return get(port, f"/subscribe/{question.id}", *last)

        system = HttpSystem(
            read, read, lambda question: post(producer_port, f"/{question.id}", question.request)
        )
        yield Running(
            {"nginx": nginx, "producer": producer}, lambda question: HttpReader(system, question)
        )


@asynccontextmanager
async def _durable_streams(model_port: int) -> AsyncIterator[Running]:
    port, producer_port = free_ports(2)
    async with (
        _glue("durable_streams", model_port, port) as server,
        _glue(
            "durable_streams_producer",
            model_port,
            producer_port,
            STREAMS_URL=f"http://127.0.0.1:{port}",
        ) as producer,
    ):

        def read(question: Question, position: Position | None = None) -> Call:
            control = position.event if position else None
            offset = json.loads(control.data)["streamNextOffset"] if control else "-1"
            return get(port, f"/{question.id}?offset={offset}&live=sse")

        system = HttpSystem(
            read,
            read,
            lambda question: post(producer_port, f"/{question.id}", question.request),
            end=b'"streamClosed":true',
        )
        yield Running(
            {"server": server, "producer": producer}, lambda question: HttpReader(system, question)
        )


@asynccontextmanager
async def _resumable_stream(model_port: int) -> AsyncIterator[Running]:
    port, redis_port = free_ports(2)
    with TemporaryDirectory() as folder:
        command = ["redis-server", "--port", str(redis_port), "--bind", "127.0.0.1"]
        async with (
            program([*command, "--dir", folder, "--save", ""], ports=(redis_port,)) as redis,
            _glue(
                "resumable_stream", model_port, port, REDIS_URL=f"redis://127.0.0.1:{redis_port}"
            ) as server,
        ):
            system = HttpSystem(
                lambda question: post(port, f"/{question.id}", question.request),
                lambda question, position: get(
                    port, f"/{question.id}?resumeAt={position.characters}"
                ),
                resumes_text=True,
            )
            yield Running(
                {"server": server, "redis": redis}, lambda question: HttpReader(system, question)
            )


@asynccontextmanager
async def _socket_io(model_port: int) -> AsyncIterator[Running]:
    port = free_port()
    async with _glue("socket_io", model_port, port) as server:
        url = f"ws://127.0.0.1:{port}/socket.io/?EIO=4&transport=websocket"
        yield Running({"server": server}, lambda question: SocketIoReader(url, question, {}))


@asynccontextmanager
async def _glue(name: str, model_port: int, port: int, **environment: str) -> AsyncIterator[Child]:
    """A server of `servers/`, by Node."""
    settings = {
        "NODE_ENV": "production",
        "PORT": str(port),
        "MODEL_URL": f"http://127.0.0.1:{model_port}/v1",
    }
    async with program(
        [str(node()), str(SERVERS / f"{name}.mjs")],
        ports=(port,),
        environment=settings | environment,
    ) as server:
        yield server


@asynccontextmanager
async def _nginx_server(configuration: str, model_port: int) -> AsyncIterator[tuple[Child, int]]:
    port = free_port()
    with TemporaryDirectory() as folder:
        values = {
            "@FOLDER@": folder,
            "@PORT@": str(port),
            "@MODEL_PORT@": str(model_port),
            "@MODULES@": str(NGINX_MODULES),
        }
        text = (SERVERS / configuration).read_text("utf-8")
        for name, value in values.items():
            text = text.replace(name, value)
        command = ["nginx", "-p", folder, "-e", "stderr", "-c", _written(text, Path(folder))]
        async with program(command, ports=(port,), end_with=SIGTERM) as server:
            yield server, port


def _written(configuration: str, folder: Path) -> str:
    """The path of its file."""
    folder.chmod(0o755)  # nginx's worker is another user where it is started as root
    path = folder / "nginx.conf"
    path.write_text(configuration, "utf-8")
    return str(path)


# Which there are ------------------------------------------------------------------------------


def _npm_version(*names: str) -> Callable[[], str]:
    def read() -> str:
        lock = json.loads((FOLDER / "package-lock.json").read_text("utf-8"))
        versions = (lock["packages"][f"node_modules/{name}"]["version"] for name in names)
        return ", ".join(versions) + f" (Node {_output(str(node()), '--version')[1:]})"

    return read


def _debian_version(*packages: str) -> str:
    return ", ".join(_output("dpkg-query", "-W", "-f", "${Version}", name) for name in packages)


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return (done.stdout or done.stderr).strip()


def _litellm_version() -> str:
    python = str(python_of("litellm"))
    return _output(python, "-c", "from importlib.metadata import version as v; print(v('litellm'))")


def _evenflow_version() -> str:
    commit = subprocess.run(
        ["git", "-C", str(FOLDER), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    ).stdout.strip()
    return commit or package_version("evenflow")


def _needs_node() -> str | None:
    if not PACKAGES.is_dir():
        return f"npm ci in {FOLDER.relative_to(Path.cwd())}"
    try:
        node()
    except ValueError:
        return "make .build/clients/.installed (it brings Node.js)"
    return None


def _needs_litellm() -> str | None:
    return None if python_of("litellm").exists() else "make .build/litellm/.installed"


def _needs_programs(*names: str) -> Callable[[], str | None]:
    debian = {"nginx": "nginx", "redis-server": "redis-server"}

    def missing() -> str | None:
        absent = [debian[name] for name in names if not shutil.which(name)]
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
        _nothing,
        "The load asks the model itself: what it and the load cost, which share a core.",
    ),
    System(
        "evenflow",
        "Evenflow, /v1",
        _evenflow_version,
        _evenflow_completions,
        EVENFLOW_SETTINGS + " Resumes: the same request with its Idempotency-Key and "
        "Last-Event-ID. Readers who leave have no key; with one they have 30 s to come back.",
        resumes=True,
    ),
    System(
        "evenflow-websocket",
        "Evenflow, WebSocket",
        _evenflow_version,
        _evenflow_websocket,
        EVENFLOW_SETTINGS + " Subprotocol evenflow.v1; resumes with response.resume.",
        resumes=True,
        grace_seconds=30.0,
    ),
    System(
        "litellm",
        "LiteLLM proxy",
        _litellm_version,
        _litellm,
        "As its Production Best Practices: a master key, request_timeout 600, set_verbose false, "
        "json_logs, LITELLM_LOG=ERROR, LITELLM_MODE=PRODUCTION; one worker; without a database; "
        "its cost map from the package.",
        _needs_litellm,
    ),
    System(
        "portkey",
        "Portkey gateway",
        _npm_version("@portkey-ai/gateway"),
        _portkey,
        "Defaults; --headless (without its console); the model by x-portkey-provider and "
        "x-portkey-custom-host.",
        _needs_node,
    ),
    System(
        "nginx",
        "nginx",
        lambda: _debian_version("nginx"),
        _nginx,
        "A plain relay: proxy_buffering off, HTTP/1.1 to the model; one worker, 20,000 "
        "connections, no access log.",
        _needs_programs("nginx"),
    ),
    System(
        "nchan",
        "nginx with nchan",
        lambda: _debian_version("nginx", "libnginx-mod-nchan"),
        _nchan,
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
        _durable_streams,
        "The reference server, in memory (default), and a producer (Node, in the figures) with "
        "its client's IdempotentProducer; readers live=sse. Resumes: the last streamNextOffset.",
        _needs_node,
        resumes=True,
    ),
    System(
        "resumable-stream",
        "resumable-stream",
        _npm_version("resumable-stream", "redis"),
        _resumable_stream,
        "Usage with explicit resumption behind Node's HTTP server; Redis without snapshots, on the "
        "same core (in the figures). Resumes: resumeAt, the characters received.",
        lambda: _needs_node() or _needs_programs("redis-server")(),
        resumes=True,
    ),
    System(
        "socket-io",
        "socket.io",
        _npm_version("socket.io"),
        _socket_io,
        "connectionStateRecovery on (two minutes, its default), in memory; WebSocket only; an "
        "event for each token. Resumes: pid and offset, as its client does.",
        _needs_node,
        resumes=True,
    ),
)
