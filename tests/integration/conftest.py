"""Servers and clients for the tests of this folder."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import cache
from typing import Any
from unittest.mock import patch

import aiohttp
import pytest
import uvloop
from botocore.loaders import create_loader
from pydantic_settings import EnvSettingsSource
from pydantic_settings.sources.base import PydanticBaseEnvSettingsSource

from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS
from tests.aws_calls import record_calls
from tests.integration.aws_emulator import AwsEmulator, aws_emulator
from tests.integration.chat_client import ChatSession, open_session
from tests.integration.deployment import (
    EDGE_KEYS,
    SIGNING_KEYS,
    AwsDeployment,
    Deployment,
    LocalDeployment,
)
from tests.integration.dynamodb_emulator import DynamoDBEmulator, threaded_dynamodb_emulator
from tests.integration.http_api_event import EDGE_KEY
from tests.integration.local_server import LocalServer, LocalServers
from tests.integration.server_process import Server, ServerProcess

Serve = LocalServers
"""Starts servers in the test's loop: `await serve(grace_seconds=1)`."""

ServeProcess = Callable[..., ServerProcess]
"""Starts a process; keyword `grace_seconds=1` is the variable `EVENFLOW_GRACE_SECONDS=1`,
`environment` has others.
"""

OpenSession = Callable[..., Awaitable[ChatSession]]
"""Opens a session at the test's shared server, or at the one that is given first."""


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the handler runs in."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session", autouse=True)
def aws_models_are_read_once() -> Iterator[None]:
    """Sessions of the AWS SDK share what they read: each would read some megabytes of JSON."""
    with patch("botocore.session.create_loader", cache(create_loader)):
        yield


@pytest.fixture(scope="session", autouse=True)
def annotations_of_settings_are_read_once() -> Iterator[None]:
    """Each server reads its settings: pydantic-settings would look through all fields' types each
    time, which takes as long as the rest of the start.
    """
    names, complexities = dict[Any, Any](), dict[int, Any]()
    extract = PydanticBaseEnvSettingsSource._extract_field_info
    examine = EnvSettingsSource._field_is_complex

    def names_of(source: Any, field: Any, name: str, *config: Any) -> Any:
        if config:
            return extract(source, field, name, *config)
        key = type(source), source.settings_cls, name
        if key not in names:
            names[key] = extract(source, field, name)
        return names[key]

    def is_complex(source: Any, field: Any) -> Any:
        # Fields live as long as their class.
        if id(field) not in complexities:
            complexities[id(field)] = examine(source, field)
        return complexities[id(field)]

    with (
        patch.object(PydanticBaseEnvSettingsSource, "_extract_field_info", names_of),
        patch.object(EnvSettingsSource, "_field_is_complex", is_complex),
    ):
        yield


@pytest.fixture(scope="session", autouse=True)
def aws_calls_are_recorded() -> None:
    """Those of our code in this process."""
    record_calls()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start servers in this loop, for one test."""
    servers = LocalServers()
    yield servers
    await servers.stop()


@pytest.fixture
async def hurry(serve: Serve) -> AsyncIterator[asyncio.Task[None]]:
    """The servers' time passes some ten times as fast, slot by slot, while the test runs or until
    it cancels this.

    Not for what others time: models elsewhere, and the loop's own timeouts.
    """

    async def pass_time() -> None:
        while True:
            await asyncio.sleep(0.001)
            await serve.time_passes(SLOT_SECONDS)

    passing = asyncio.create_task(pass_time())
    yield passing
    passing.cancel()


@pytest.fixture
async def shared_server(serve: Serve) -> LocalServer:
    """The server for every test that is content with the defaults."""
    return await serve.shared()


def _variables(settings: dict[str, object]) -> dict[str, str]:
    return {f"EVENFLOW_{name.upper()}": str(value) for name, value in settings.items()}


def _serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    started: list[ServerProcess] = []

    def serve(environment: Mapping[str, str] | None = None, **settings: object) -> ServerProcess:
        log = tmp_path_factory.mktemp("server") / "server.log"
        server = ServerProcess(log, {**(environment or {}), **_variables(settings)})
        started.append(server)
        return server.wait_until_serving()

    yield serve
    failures = []
    for server in started:
        try:
            server.stop()
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, "\n".join(failures)


@pytest.fixture
def serve_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """Start processes for one test."""
    yield from _serving(tmp_path_factory)


@pytest.fixture(scope="module")
def serve_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """Start processes for all tests of a module."""
    yield from _serving(tmp_path_factory)


@pytest.fixture(scope="session")
def emulated_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsEmulator]:
    """What a deployment has of AWS beside its tables."""
    with aws_emulator(tmp_path_factory.mktemp("aws") / "aws.log") as running:
        keys = '{"k1": "0123456789abcdef0123456789abcdef"}'
        secrets = running.client("secretsmanager")
        secrets.create_secret(Name=SIGNING_KEYS, SecretString=keys)
        secrets.create_secret(Name=EDGE_KEYS, SecretString=json.dumps({"k1": EDGE_KEY}))
        yield running


@pytest.fixture(scope="session")
def emulated_dynamodb() -> Iterator[DynamoDBEmulator]:
    """The tables' server. A request that DynamoDB would refuse fails the run."""
    with threaded_dynamodb_emulator() as running:
        yield running
        assert running.refused == []


@pytest.fixture
def deployment(serve: Serve) -> LocalDeployment:
    """Tasks in this loop that share their stores, and none yet."""
    return LocalDeployment(serve)


@pytest.fixture
def aws_deployment(
    emulated_aws: AwsEmulator, emulated_dynamodb: DynamoDBEmulator, serve: Serve
) -> AwsDeployment:
    """Tasks in this loop on tables of their own, and none yet."""
    tables = emulated_dynamodb.create_tables(f"test{time.monotonic_ns()}")
    return AwsDeployment(emulated_aws.environment | emulated_dynamodb.environment, tables, serve)


@pytest.fixture
def process_deployment(
    emulated_aws: AwsEmulator, emulated_dynamodb: DynamoDBEmulator, serve_process: ServeProcess
) -> Deployment:
    """Tables for one test, and no process yet."""
    tables = emulated_dynamodb.create_tables(f"test{time.monotonic_ns()}")
    return Deployment(
        emulated_aws.environment | emulated_dynamodb.environment, tables, serve_process
    )


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP client."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=50)
    ) as client:
        yield client


@pytest.fixture
def opened(http: aiohttp.ClientSession, serve: Serve) -> OpenSession:
    """Open sessions."""

    async def opened(
        server: Server | None = None, *, address: str | None = None, **body: str
    ) -> ChatSession:
        url = (server or await serve.shared()).http_url
        return await open_session(http, url, address=address, **body)

    return opened
