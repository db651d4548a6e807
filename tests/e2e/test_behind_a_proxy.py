"""The page, the element and an EventSource in a real Chromium, behind the proxies of
docs/behind-a-proxy.md.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conversation import Conversation
from tests.e2e.test_browser_clients import (
    QUESTION,
    assert_each_index_once,
    seen,
    stock_page,
    until,
)
from tests.integration.conftest import ServeProcess
from tests.integration.doctor.proxies import nginx
from tests.integration.documented_proxies import DOCUMENTED, StartProxy, documented_nginx
from tests.integration.server_process import ServerProcess

__all__ = ["stock_page"]

OpenPage = Callable[[str], Page]

_SHORT_QUESTION = "How does Evenflow treat slow readers?"
_ELEMENT = """async (module) => {
    await import(module);
    document.body.append(document.createElement("evenflow-chat"));
}"""

needs_nginx = pytest.mark.skipif(
    shutil.which("nginx") is None, reason="needs nginx: apt-get install nginx"
)


def _answered(open_page: OpenPage, server: ServerProcess, url: str) -> Conversation:
    """A conversation of the page at this address, with one answer over a WebSocket."""
    conversation = Conversation(open_page("about:blank"), server).open(url=url)
    conversation.ask(_SHORT_QUESTION)
    conversation.wait_for("done")
    assert conversation.shown == conversation.logged()["full_text"]
    transport = conversation.page.get_by_test_id("transport")
    expect(transport).to_have_attribute("data-value", "websocket")
    return conversation


@pytest.mark.parametrize("start", DOCUMENTED)
def test_the_page_has_its_websocket(
    open_page: OpenPage, server: ServerProcess, start: StartProxy, tmp_path: Path
) -> None:
    with start(server.port, tmp_path) as url:
        _answered(open_page, server, url)


@needs_nginx
def test_the_page_has_its_websocket_behind_nginx_that_says_nothing_of_it(
    open_page: OpenPage, server: ServerProcess, tmp_path: Path
) -> None:
    """The server can't know the visitor's address: it is told nowhere but in the browser."""
    upgrade = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;"
    location = f"proxy_http_version 1.1; {upgrade}"
    with nginx(server.port, tmp_path, location) as url:
        _answered(open_page, server, url)


@needs_nginx
def test_the_page_and_the_element_work_below_a_path(
    open_page: OpenPage, server: ServerProcess, tmp_path: Path
) -> None:
    below = {
        "location / {": "location /ai/ {",
        "proxy_pass http://127.0.0.1:8080;\n    }\n\n    #": (
            "proxy_pass http://127.0.0.1:8080/;\n    }\n\n    #"
        ),
    }
    with documented_nginx(server.port, tmp_path, below) as url:
        page = _answered(open_page, server, f"{url}/ai").page
        failed: list[str] = []
        sockets: list[str] = []
        page.on("requestfailed", lambda request: failed.append(request.url))
        page.on("websocket", lambda socket: sockets.append(socket.url))
        page.on("response", lambda it: failed.append(it.url) if it.status >= 400 else None)
        page.goto(f"{url}/ai/health")  # a page without anything
        with page.expect_websocket():
            page.evaluate(_ELEMENT, "/ai/evenflow-chat.js")
        assert (failed, sockets) == ([], [f"{url.replace('http', 'ws', 1)}/ai/ws"])


@pytest.mark.parametrize("start", DOCUMENTED)
def test_an_event_source_goes_on_when_the_server_was_restarted(
    open_page: OpenPage,
    serve_process: ServeProcess,
    stock_page: Path,
    start: StartProxy,
    tmp_path: Path,
) -> None:
    settings = {"page": stock_page, "store": "sqlite", "store_path": tmp_path / "evenflow.db"}
    server = serve_process(**settings)
    with start(server.port, tmp_path) as url:
        page = open_page(f"{url}/")
        page.evaluate("text => overEventSource(text, true)", QUESTION)
        until(page, "seen.pieces.length > 20")
        with page.expect_request("**/events"):  # while nobody listens
            server.stop()
        serve_process({"EVENFLOW_HTTP_PORT": str(server.port)}, **settings)
        until(page, "seen.end !== null")
        assert_each_index_once(seen(page))
