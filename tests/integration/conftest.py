"""Servers and clients for the tests of this folder."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

import aiohttp
import pytest

from tests.integration.aws_emulator import AwsEmulator, aws_emulator
from tests.integration.chat_client import ChatSession, open_session
from tests.integration.deployment import SIGNING_KEYS, Deployment
from tests.integration.dynamodb_emulator import DynamoDBEmulator, threaded_dynamodb_emulator
from tests.integration.server_process import ServerProcess

Serve = Callable[..., ServerProcess]
"""Starts a server; keyword `grace_seconds=1` is the variable `EVENFLOW_GRACE_SECONDS=1`, `environment` has any others."""

OpenSession = Callable[..., Awaitable[ChatSession]]
"""Opens a session at the shared server, or at the one that is given first."""


def _variables(settings: dict[str, object]) -> dict[str, str]:
    return {f"EVENFLOW_{name.upper()}": str(value) for name, value in settings.items()}


def _serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
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
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Start servers for one test."""
    yield from _serving(tmp_path_factory)


@pytest.fixture(scope="module")
def serve_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Start servers for all tests of a module."""
    yield from _serving(tmp_path_factory)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server for every test that is content with the defaults."""
    for serve in _serving(tmp_path_factory):
        yield serve()


@pytest.fixture(scope="session")
def emulated_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsEmulator]:
    """What a deployment has of AWS beside its tables."""
    with aws_emulator(tmp_path_factory.mktemp("aws") / "aws.log") as running:
        keys = '{"k1": "0123456789abcdef0123456789abcdef"}'
        running.client("secretsmanager").create_secret(Name=SIGNING_KEYS, SecretString=keys)
        yield running


@pytest.fixture(scope="session")
def emulated_dynamodb() -> Iterator[DynamoDBEmulator]:
    """The tables' server. A request that DynamoDB would refuse fails the run."""
    with threaded_dynamodb_emulator() as running:
        yield running
        assert running.refused == []


def _deployment(aws: AwsEmulator, dynamodb: DynamoDBEmulator, serve: Serve) -> Deployment:
    tables = dynamodb.create_tables(f"test{time.monotonic_ns()}")
    return Deployment(aws.environment | dynamodb.environment, tables, serve)


@pytest.fixture
def deployment(emulated_aws: AwsEmulator, emulated_dynamodb: DynamoDBEmulator, serve: Serve) -> Deployment:
    """Tables for one test, and no task yet."""
    return _deployment(emulated_aws, emulated_dynamodb, serve)


@pytest.fixture(scope="module")
def shared_deployment(
    emulated_aws: AwsEmulator, emulated_dynamodb: DynamoDBEmulator, serve_module: Serve
) -> Deployment:
    """Tables for all tests of a module."""
    return _deployment(emulated_aws, emulated_dynamodb, serve_module)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP client."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=50)) as client:
        yield client


@pytest.fixture
def opened(http: aiohttp.ClientSession, request: pytest.FixtureRequest) -> OpenSession:
    """Open sessions."""

    async def opened(server: ServerProcess | None = None, **body: str) -> ChatSession:
        chosen = server or request.getfixturevalue("shared_server")
        return await open_session(http, chosen.http_url, **body)

    return opened
