"""Clients for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import aiohttp
import openai
import pytest

from tests.integration.local_server import LocalServer
from tests.integration.openai.completions import Completions
from tests.integration.openai.javascript_client import JavaScriptClient, javascript_process
from tests.integration.server_process import Server

At = Callable[..., Completions]
"""A client of a server; `key` is its bearer token."""


def openai_client(base_url: str, key: str = "sk-anything") -> openai.AsyncOpenAI:
    """The stock client for Python, asking once."""
    # It would read certificates for 40 ms, and needs none here.
    http = openai.DefaultAsyncHttpxClient(verify=False)
    return openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, http_client=http)


@pytest.fixture
def at(http: aiohttp.ClientSession) -> At:
    """Make clients of a server."""

    def at(server: Server, key: str = "sk-anything") -> Completions:
        return Completions(http, server, key)

    return at


@pytest.fixture
def completions(at: At, shared_server: LocalServer) -> Completions:
    """A client of the server with the defaults."""
    return at(shared_server)


@pytest.fixture(scope="session")
def javascript_url() -> Iterator[str]:
    """Where the stock client for JavaScript is told what to ask."""
    with javascript_process() as url:
        yield url


@pytest.fixture
def javascript(http: aiohttp.ClientSession, javascript_url: str) -> JavaScriptClient:
    """The stock client for JavaScript."""
    return JavaScriptClient(http, javascript_url)
