"""Clients for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable

import aiohttp
import pytest

from tests.integration.openai.completions import Completions
from tests.integration.openai.javascript_client import JavaScriptClient
from tests.integration.server_process import ServerProcess

At = Callable[..., Completions]
"""A client of a server; `key` is its bearer token."""


@pytest.fixture
def at(http: aiohttp.ClientSession) -> At:
    """Make clients of a server."""

    def at(server: ServerProcess, key: str = "sk-anything") -> Completions:
        return Completions(http, server, key)

    return at


@pytest.fixture
def completions(at: At, shared_process: ServerProcess) -> Completions:
    """A client of the server with the defaults."""
    return at(shared_process)


@pytest.fixture(scope="session")
def javascript() -> JavaScriptClient:
    """The stock client for JavaScript, installed."""
    return JavaScriptClient.installed()
