"""The browser's own `EventSource` and `WebSocket`, with no line of our client, in a real
Chromium.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Page

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.e2e.rough_network import RoughNetwork
from tests.integration.chat_client import demo
from tests.integration.conftest import ServeProcess
from tests.integration.deployment import Deployment
from tests.integration.server_process import ServerProcess

OpenPage = Callable[[str], Page]

_TOKENS, _SEED = 300, 97
QUESTION = demo(tokens=_TOKENS, gap_ms=20, seed=_SEED)
_TEXT = "".join(demo_tokens(_SEED, _TOKENS))
_WHOLE_SECONDS = 45
_STOCK_PAGE = Path(__file__).parent / "stock_page"


@pytest.fixture(scope="module")
def stock_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny page as a server wants it."""
    page = tmp_path_factory.mktemp("page")
    shutil.copytree(_STOCK_PAGE, page, dirs_exist_ok=True)
    (page / "assets").mkdir()
    (page / "stock_clients.js").rename(page / "assets" / "stock_clients.js")
    return page


@pytest.fixture(scope="module")
def server(serve_module: ServeProcess, stock_page: Path) -> ServerProcess:
    """It serves the tiny page in the place of the real one, under the same policy."""
    return serve_module(page=stock_page)


@pytest.fixture
def network(server: ServerProcess) -> Iterator[RoughNetwork]:
    with RoughNetwork() as running:
        running.lead_to(server)
        yield running


@pytest.fixture
def another_site(tmp_path: Path) -> Iterator[str]:
    """The same page at an origin that has nothing to do with the server, without any policy."""
    shutil.copytree(_STOCK_PAGE, tmp_path / "assets")
    shutil.copy(_STOCK_PAGE / "index.html", tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path))) as site:
        serving = Thread(target=site.serve_forever)
        serving.start()
        yield f"http://localhost:{site.server_address[1]}/"
        site.shutdown()
        serving.join(5)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        """Nothing."""


def seen(page: Page) -> dict[str, Any]:
    told: dict[str, Any] = page.evaluate("seen")
    return told


def until(page: Page, condition: str) -> None:
    """Wait until an expression is true there. (Playwright's own waiting needs `eval`, which the
    page's policy forbids.)
    """
    give_up_at = time.monotonic() + _WHOLE_SECONDS
    while not page.evaluate(condition):
        assert time.monotonic() < give_up_at, f"not {condition}: {seen(page)}"
        page.wait_for_timeout(20)


def assert_each_index_once(told: dict[str, Any]) -> None:
    assert told["text"] == _TEXT
    following = 0
    for first, last, _text in told["pieces"]:
        assert first == following, told["pieces"]
        following = last + 1
    assert told["end"]["last_index"] == following - 1


def test_an_event_source_reads_an_answer_and_stops_at_its_end(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page(f"{server.http_url}/")
    page.evaluate("text => overEventSource(text, true)", QUESTION)
    # It comes again behind the end, is answered 204, and closes itself.
    until(page, "seen.state === EventSource.CLOSED")
    told = seen(page)
    assert_each_index_once(told)
    assert told["ids"][-1] == f"{told['end']['last_index']}.end"
    assert told["opened"] == 1
    assert "evenflow" not in page.evaluate("document.cookie")


def test_an_event_source_comes_back_by_itself_and_misses_nothing(
    open_page: OpenPage, network: RoughNetwork
) -> None:
    page = open_page(f"{network.url}/")
    page.evaluate("text => overEventSource(text, true)", QUESTION)
    for opened in (1, 2, 3):
        until(page, f"seen.opened === {opened} && seen.pieces.length > {4 * opened}")
        assert seen(page)["end"] is None, "the answer was over before the connection was cut"
        if opened < 3:
            assert network.cut() > 0
    until(page, "seen.end !== null")
    assert_each_index_once(seen(page))


def test_an_event_source_misses_nothing_while_the_server_hangs(
    open_page: OpenPage, server: ServerProcess, network: RoughNetwork
) -> None:
    """The process is stopped, as a machine is that hangs; its connections are gone when it goes
    on.
    """
    page = open_page(f"{network.url}/")
    page.evaluate("text => overEventSource(text, true)", QUESTION)
    until(page, "seen.pieces.length > 5")
    with server.suspended():
        network.cut()
        time.sleep(1)
    until(page, "seen.end !== null")
    assert_each_index_once(seen(page))


def test_an_event_source_comes_back_to_another_task_when_its_own_is_killed(
    open_page: OpenPage, deployment: Deployment, stock_page: Path
) -> None:
    owner, other = deployment.start(2, page=stock_page)
    with RoughNetwork() as network:
        network.lead_to(owner, other)
        page = open_page(f"{network.url}/")
        page.evaluate("text => overEventSource(text, true)", QUESTION)
        until(page, "seen.pieces.length > 20")
        owner.kill()
        until(page, "seen.end !== null")
        told = seen(page)
        assert_each_index_once(told)
        assert told["opened"] >= 2
        # The id says which task it is from; the browser has sent the first one's to the second.
        assert ".2" in told["ids"][-1]
        until(page, "seen.state === EventSource.CLOSED")


def test_without_the_cookie_an_event_source_is_refused(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page(f"{server.http_url}/")
    page.evaluate("text => overEventSource(text, false)", QUESTION)
    until(page, "seen.state === EventSource.CLOSED")
    assert (seen(page)["opened"], seen(page)["text"]) == (0, "")


def test_another_site_reads_nothing(
    open_page: OpenPage, server: ServerProcess, another_site: str
) -> None:
    page = open_page(f"{server.http_url}/")
    with page.expect_request("**/events") as asked:
        page.evaluate("text => overEventSource(text, true)", QUESTION)
    until(page, "seen.pieces.length > 0")
    assert "evenflow-events" in asked.value.all_headers()["cookie"]
    other = page.context.new_page()
    other.goto(another_site)
    with other.expect_request("**/events") as asked_elsewhere:
        other.evaluate("url => listen(url, { withCredentials: true })", asked.value.url)
    until(other, "seen.state === EventSource.CLOSED")
    assert "evenflow-events" not in asked_elsewhere.value.all_headers().get("cookie", "")
    assert (seen(other)["opened"], seen(other)["text"]) == (0, "")


def test_a_websocket_reads_an_answer(open_page: OpenPage, server: ServerProcess) -> None:
    page = open_page(f"{server.http_url}/")
    page.evaluate("text => overWebSocket(text)", QUESTION)
    until(page, "seen.state !== null")
    told = seen(page)
    assert_each_index_once(told)
    assert told["state"] == [1000, True, "evenflow.v1"]
