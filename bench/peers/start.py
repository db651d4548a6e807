"""How each system is started, with which settings, and how it is read. Each function is given the
model's port, and runs the system until its block ends.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM
from tempfile import TemporaryDirectory

from bench.evenflow import Evenflow, evenflow
from bench.peers.readers import (
    Call,
    HttpReader,
    HttpSystem,
    Position,
    Question,
    Reader,
    get,
    post,
)
from bench.peers.sockets import EvenflowReader, SocketIoReader
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


# Without anything between, and as a relay -----------------------------------------------------


@asynccontextmanager
async def nothing(model_port: int) -> AsyncIterator[Running]:
    yield Running({}, _completions(model_port))


@asynccontextmanager
async def litellm(model_port: int) -> AsyncIterator[Running]:
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
async def portkey(model_port: int) -> AsyncIterator[Running]:
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
async def nginx(model_port: int) -> AsyncIterator[Running]:
    async with _nginx_server("nginx.conf", model_port) as (server, port):
        yield Running({"nginx": server}, _completions(port))


def _completions(port: int, *headers: str) -> MakeReader:
    system = HttpSystem(
        lambda question: post(port, COMPLETIONS, question.request, *headers),
    )
    return lambda question: HttpReader(system, question)


# Evenflow -------------------------------------------------------------------------------------


@asynccontextmanager
async def _evenflow(model_port: int, grace_seconds: float = 86_400) -> AsyncIterator[Evenflow]:
    async with evenflow(
        model="openai",
        model_name="bench",
        model_url=f"http://127.0.0.1:{model_port}/v1",
        grace_seconds=grace_seconds,
    ) as server:
        yield server


@asynccontextmanager
async def evenflow_completions(model_port: int) -> AsyncIterator[Running]:
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
async def evenflow_websocket(model_port: int) -> AsyncIterator[Running]:
    async with _evenflow(model_port, grace_seconds=30) as server:

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
async def nchan(model_port: int) -> AsyncIterator[Running]:
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
async def durable_streams(model_port: int) -> AsyncIterator[Running]:
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
async def resumable_stream(model_port: int) -> AsyncIterator[Running]:
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
async def socket_io(model_port: int) -> AsyncIterator[Running]:
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
