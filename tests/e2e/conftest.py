"""A real server and a real headless Chromium (the distribution's package)."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

from tests.e2e.conversation import Conversation
from tests.e2e.rough_network import RoughNetwork
from tests.integration.conftest import emulated_aws, emulated_dynamodb, serve_module, serve_process
from tests.integration.conftest import process_deployment as deployment
from tests.integration.grpc_workers.conftest import worker_processes
from tests.integration.server_process import ServerProcess, free_port

__all__ = [
    "deployment",
    "emulated_aws",
    "emulated_dynamodb",
    "serve_module",
    "serve_process",
    "worker_processes",
]

OpenPage = Callable[[str], Page]
Converse = Callable[..., Conversation]
"""Opens the page of a server, at an address and with a query where they are said."""

# As root Chromium needs --no-sandbox; the rest keeps it from calling home.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_START_SECONDS = 20.0


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert found, "no Chromium: `apt-get install chromium`, or CHROMIUM=/path"
    return found


@pytest.fixture(scope="session")
def browser(playwright: Playwright, chromium: str) -> Iterator[Browser]:
    running = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
    yield running
    running.close()


@pytest.fixture(scope="session")
def window(
    playwright: Playwright, chromium: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserContext]:
    """A browser window as a person has one: one tab at a time is seen. (Playwright keeps those
    of its own always visible.)
    """
    profile = tmp_path_factory.mktemp("profile")
    flags = [
        *CHROMIUM_FLAGS,
        "--headless=new",
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
        "about:blank",  # the browser's own first page may keep Playwright waiting
    ]
    process = subprocess.Popen(
        [chromium, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        running = playwright.chromium.connect_over_cdp(_debugging_url(profile), no_defaults=True)
        yield running.contexts[0]
        running.close()
    finally:
        process.terminate()
        process.wait()


def _debugging_url(profile: Path) -> str:
    """Where a browser with this profile says that it can be driven."""
    give_up_at = time.monotonic() + _START_SECONDS
    told = profile / "DevToolsActivePort"
    while not told.is_file() or "\n" not in told.read_text():
        assert time.monotonic() < give_up_at, "Chromium did not start"
        time.sleep(0.02)
    return f"http://127.0.0.1:{told.read_text().split()[0]}"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path_factory.mktemp("server") / "log", {}).wait_until_serving()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def server_without_websocket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """It tells clients a WebSocket address at which nobody listens, as behind a firewall."""
    variables = {"EVENFLOW_PUBLIC_WS_URL": f"ws://127.0.0.1:{free_port()}/ws"}
    running = ServerProcess(
        tmp_path_factory.mktemp("server") / "log", variables
    ).wait_until_serving()
    yield running
    running.stop()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens an address in a fresh profile; the page may log no error."""
    context = browser.new_context()
    errors: list[str] = []

    def open_(url: str) -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        return page

    yield open_
    context.close()
    assert not errors


@pytest.fixture
def network() -> Iterator[RoughNetwork]:
    """One address in front of servers, which lead it to themselves."""
    with RoughNetwork() as running:
        yield running


@pytest.fixture
def converse(open_page: OpenPage, network: RoughNetwork) -> Converse:
    """Opens the page of a server by way of the network."""

    def converse(server: ServerProcess, query: str = "") -> Conversation:
        return Conversation(open_page("about:blank"), server).open(query, network.url)

    return converse
