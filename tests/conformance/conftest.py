"""Servers and a browser for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.conformance.interface_clients import scripted, server, upstream
from tests.e2e.conftest import CHROMIUM_FLAGS, chromium
from tests.integration.conftest import serve_module, serve_process

__all__ = ["chromium", "scripted", "serve_module", "serve_process", "server", "upstream"]


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """A Chromium of one module: while Playwright runs, no other loop of this process can."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield running
        running.close()
