"""AI SDK's `useChat` with React in a real Chromium, on a page of another origin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conformance.interface_clients import (
    FAILS,
    FAILS_TEXT,
    JAVASCRIPT,
    LONG,
    LONG_TEXT,
    SHORT,
    SHORT_TEXT,
    bundle,
)
from tests.e2e.other_site import OtherSite, other_site
from tests.integration.conftest import ServeProcess
from tests.integration.server_process import ServerProcess

_WHOLE_MS = 30_000

OpenChat = Callable[[str], Page]
"""Opens a tab with the chat of this id."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherSite]:
    """An application with the chat's page."""
    folder = tmp_path_factory.mktemp("page")
    bundle(
        JAVASCRIPT / "chat_page.mjs",
        folder / "chat.js",
        '--define:process.env.NODE_ENV="production"',
    )
    with other_site() as running:
        running.folders["/built"] = folder
        yield running


@pytest.fixture(scope="module")
def served(site: OtherSite, serve_module: ServeProcess) -> ServerProcess:
    """A server that lets the application's page call."""
    return serve_module(allowed_origins=site.origin)


@pytest.fixture
def open_chat(site: OtherSite, served: ServerProcess, browser: Browser) -> Iterator[OpenChat]:
    address = site.page('<script type="module" src="/built/chat.js"></script>')
    context = browser.new_context()

    def open_(chat_id: str) -> Page:
        page = context.new_page()
        page.goto(f"{address}#{urlencode({'id': chat_id, 'api': f'{served.http_url}/api/chat'})}")
        return page

    yield open_
    context.close()


def _ask(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def _expect_answer(page: Page, text: str) -> None:
    expect(page.locator("main")).to_have_attribute("data-status", "ready", timeout=_WHOLE_MS)
    assert page.locator(".assistant").all_text_contents() == [text]


def _until_some(page: Page) -> str:
    page.wait_for_function("(document.querySelector('.assistant')?.textContent ?? '').length > 20")
    return page.locator(".assistant").text_content() or ""


def test_an_answer_is_on_the_page(open_chat: OpenChat) -> None:
    page = open_chat("plain")
    _ask(page, SHORT)
    page.wait_for_selector(".assistant")
    _expect_answer(page, SHORT_TEXT)


def test_a_page_that_is_loaded_again_has_the_whole_answer(open_chat: OpenChat) -> None:
    page = open_chat("reload")
    _ask(page, LONG)
    assert len(_until_some(page)) < len(LONG_TEXT)
    page.reload()
    page.wait_for_selector(".assistant")
    _expect_answer(page, LONG_TEXT)
    assert page.locator(".user").all_text_contents() == [LONG]
    page.reload()
    _ask(page, SHORT)
    expect(page.locator(".assistant")).to_have_count(2)
    expect(page.locator("main")).to_have_attribute("data-status", "ready", timeout=_WHOLE_MS)
    assert page.locator("article").all_text_contents() == [LONG, LONG_TEXT, SHORT, SHORT_TEXT]


def test_a_second_tab_reads_along_and_its_stop_stops_the_first(open_chat: OpenChat) -> None:
    page = open_chat("tabs")
    _ask(page, LONG)
    _until_some(page)
    other = open_chat("tabs")
    _until_some(other)
    other.get_by_role("button", name="Stop").click()
    expect(page.locator("main")).to_have_attribute("data-status", "ready", timeout=_WHOLE_MS)
    text = page.locator(".assistant").text_content() or ""
    assert LONG_TEXT.startswith(text)
    assert 0 < len(text) < len(LONG_TEXT)
    expect(other.locator("main")).to_have_attribute("data-status", "ready")


def test_an_error_is_told_behind_the_text(open_chat: OpenChat) -> None:
    page = open_chat("error")
    _ask(page, FAILS)
    expect(page.get_by_role("alert")).to_contain_text("told to fail", timeout=_WHOLE_MS)
    assert page.locator(".assistant").all_text_contents() == [FAILS_TEXT]
