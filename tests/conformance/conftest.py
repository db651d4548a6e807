"""Servers and a browser for the tests of this folder."""

from __future__ import annotations

from tests.conformance.interface_clients import scripted, server, upstream
from tests.e2e.conftest import browser, chromium, playwright
from tests.integration.conftest import serve_module, serve_process

__all__ = [
    "browser",
    "chromium",
    "playwright",
    "scripted",
    "serve_module",
    "serve_process",
    "server",
    "upstream",
]
