"""The system that all tests of this folder look at; it is started once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from tests.aws.running_system import RunningSystem, running_system
from tests.aws_calls import record_calls
from tests.integration.server_process import free_port


@pytest.fixture(scope="session", autouse=True)
def aws_calls_are_recorded() -> None:
    """Those of our code in this process. Processes that it starts record their own."""
    record_calls()


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSystem]:
    """Evenflow, deployed to an emulated AWS and running."""
    with running_system(tmp_path_factory.mktemp("aws"), free_port(), {}, print) as system:
        yield system


@pytest.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP client that keeps cookies, also those of an address without a name."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(
        cookie_jar=jar, timeout=aiohttp.ClientTimeout(total=50)
    ) as client:
        yield client


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP client without a memory."""
    connector = aiohttp.TCPConnector(limit=0)
    jar = aiohttp.DummyCookieJar()
    timeout = aiohttp.ClientTimeout(total=50)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=jar, timeout=timeout
    ) as client:
        yield client
