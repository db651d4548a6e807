"""The library as it is published, in a real browser against a real server: the text is the
log's, whatever happens on the way.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from tests.integration.server_process import ServerProcess

OpenPage = Callable[[str], Page]
_WEB = Path(__file__).resolve().parents[2] / "web"
_LIBRARY = "/library/index.js"
_QUESTION = "#demo tokens=80 gap_ms=40 seed=11"
_ASK = """async ([library, transports, question]) => {
    const { connect } = await import(library);
    window.client = connect(transports ? { transports } : {});
    window.answer = window.client.ask(question);
    await new Promise((begun) => window.answer.on("delta", begun));
}"""
_RESUME = """async ([library]) => {
    const { connect } = await import(library);
    window.client = connect();
    window.answer = window.client.resumable;
    window.answer.on("delta", () => {});
}"""
_SHOWN = """async () => {
    let text = "", travels = [];
    for await (const event of window.answer) {
        if (event.type === "delta") text += event.text;
        if (event.type === "restarted") text = text.slice(0, event.keep);
        if (event.type === "transport") travels.push(event.transport);
    }
    const { token } = JSON.parse(Object.values(sessionStorage)[0]).c;
    return { text, travels, token, kept: window.answer.text, id: window.answer.responseId };
}"""


# As build-library.mjs does, but not into web/lib, which others may be building at the same time.
_BUILD = """import { build } from "esbuild";
import { LIBRARY } from "./library-bundle.mjs";
const { outputFiles } = await build({ ...LIBRARY, outfile: "index.js", write: false });
process.stdout.write(outputFiles[0].text);"""


@pytest.fixture(scope="module")
def library() -> str:
    """The text of the built library."""
    command = ["node", "--input-type=module", "--eval", _BUILD]
    return subprocess.run(
        command, cwd=_WEB, check=True, capture_output=True, encoding="utf-8"
    ).stdout


@pytest.fixture
def page(open_page: OpenPage, server: ServerProcess, library: str) -> Page:
    """A page of the server's origin, from which the library can be had; its own script stays
    away.
    """
    opened = open_page("about:blank")
    opened.route(
        f"**{_LIBRARY}", lambda route: route.fulfill(body=library, content_type="text/javascript")
    )
    opened.route(
        "**/assets/*.js", lambda route: route.fulfill(body="", content_type="text/javascript")
    )
    opened.goto(server.http_url)
    return opened


def expect_the_log(page: Page, server: ServerProcess) -> list[str]:
    """Wait for the end, compare the text with the log, and return how the answer has travelled."""
    shown: dict[str, Any] = page.evaluate(_SHOWN)
    url = f"{server.http_url}/chat/message/{shown['id']}?from_index=0"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {shown['token']}"})
    with urllib.request.urlopen(request) as answer:
        log = json.load(answer)
    assert log["status"] == "completed"
    assert shown["text"] == shown["kept"] == log["full_text"]
    travels: list[str] = shown["travels"]
    return travels


@pytest.mark.parametrize("transport", ["websocket", "sse", "long-poll"])
def test_an_answer_is_the_log_s_text(page: Page, server: ServerProcess, transport: str) -> None:
    page.evaluate(_ASK, [_LIBRARY, [transport], _QUESTION])
    assert expect_the_log(page, server) == [transport]


def test_a_reload_in_mid_answer_loses_nothing(page: Page, server: ServerProcess) -> None:
    page.evaluate(_ASK, [_LIBRARY, None, _QUESTION])
    page.wait_for_timeout(500)
    page.reload()
    page.evaluate(_RESUME, [_LIBRARY])
    assert expect_the_log(page, server) == ["websocket"]


@pytest.mark.parametrize("transport", ["sse", "long-poll"])
def test_a_network_that_goes_and_comes_back_leaves_no_gap(
    page: Page, server: ServerProcess, transport: str
) -> None:
    page.evaluate(_ASK, [_LIBRARY, [transport], _QUESTION])
    page.context.set_offline(True)
    page.wait_for_timeout(2_000)
    page.context.set_offline(False)
    assert expect_the_log(page, server) == [transport]


def test_a_proxy_that_holds_event_streams_back_is_found_out(
    page: Page, server: ServerProcess
) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/events?*", hold)
    page.evaluate(_ASK, [_LIBRARY, ["sse", "long-poll"], "#demo tokens=120 gap_ms=50 seed=11"])
    assert expect_the_log(page, server) == ["sse", "long-poll"]
    assert len(held) == 1
