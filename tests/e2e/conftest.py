"""A real server and a real headless Chromium (the distribution's package)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.integration.server_process import ServerProcess, free_port

# As root Chromium needs --no-sandbox; the rest keeps it from calling home.
_CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert chromium, "no Chromium: `apt-get install chromium`, or CHROMIUM=/path"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=_CHROMIUM_FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path_factory.mktemp("server") / "log", {}).wait_until_serving()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def server_without_websocket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """It tells clients a WebSocket address at which nobody listens, as behind a firewall."""
    variables = {"EVENFLOW_PUBLIC_WS_URL": f"ws://127.0.0.1:{free_port()}/ws"}
    running = ServerProcess(tmp_path_factory.mktemp("server") / "log", variables).wait_until_serving()
    yield running
    running.stop()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[[str], Page]]:
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
