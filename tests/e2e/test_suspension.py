"""Tabs that are not looked at: hidden behind another one, or frozen by the browser, whose
scripts then stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import BrowserContext, CDPSession, Page

from tests.e2e.conversation import Conversation, until_no_model_runs
from tests.e2e.rough_network import RoughNetwork
from tests.integration.chat_client import demo
from tests.integration.conftest import ServeProcess
from tests.integration.server_process import ServerProcess

_QUERIES = {"websocket": "", "sse": "?transport=sse", "long-poll": "?transport=poll"}
_QUESTION = demo(tokens=100, gap_ms=40, seed=51)
_ENDLESS = demo(tokens=5_000, gap_ms=40, seed=52)


class Tab:
    """A tab with the page, behind another one or before it."""

    def __init__(self, window: BrowserContext, page: Page, conversation: Conversation) -> None:
        self.conversation = conversation
        self._page = page
        self._other = window.new_page()
        self._devtools: CDPSession = window.new_cdp_session(page)
        self.show()

    def show(self) -> None:
        """A person looks at it."""
        self._page.bring_to_front()
        self._page.wait_for_function("!document.hidden")

    def hide(self) -> None:
        """Another one is looked at."""
        self._other.bring_to_front()
        self._page.wait_for_function("document.hidden", polling=50)

    def freeze(self) -> None:
        """The browser saves what it costs: no timer, no event, no script."""
        self.hide()
        self._page.evaluate("window.ticks = 0; setInterval(() => { window.ticks += 1; }, 20)")
        self._devtools.send("Page.setWebLifecycleState", {"state": "frozen"})

    def thaw(self) -> None:
        """It goes on, and is looked at."""
        self._devtools.send("Page.setWebLifecycleState", {"state": "active"})
        self.show()

    def close(self) -> None:
        """Close both."""
        self._page.close()
        self._other.close()


@pytest.fixture(scope="module", name="network")
def network_of_all_tests() -> Iterator[RoughNetwork]:
    with RoughNetwork() as running:
        yield running


@pytest.fixture(scope="module")
def server(serve_module: ServeProcess, network: RoughNetwork) -> ServerProcess:
    server = serve_module(public_ws_url=network.ws_url)
    network.lead_to(server)
    return server


@pytest.fixture
def open_tab(
    window: BrowserContext, network: RoughNetwork, server: ServerProcess
) -> Iterator[Callable[[str], Tab]]:
    """Opens the page with a way for the answer to travel, in front."""
    tabs: list[Tab] = []

    def open_(transport: str) -> Tab:
        page = window.new_page()
        conversation = Conversation(page, server).open(_QUERIES[transport], network.url)
        tabs.append(Tab(window, page, conversation))
        return tabs[-1]

    yield open_
    for tab in tabs:
        tab.close()


def begin(tab: Tab, question: str) -> Conversation:
    tab.conversation.ask(question)
    tab.conversation.wait_for("streaming")
    tab.conversation.wait_for_more(30)
    return tab.conversation


def check_that_it_stands_still(conversation: Conversation) -> None:
    """A frozen page runs no script, whatever comes."""
    before = conversation.page.evaluate("window.ticks"), conversation.text
    conversation.page.wait_for_timeout(1_500)
    assert (conversation.page.evaluate("window.ticks"), conversation.text) == before


@pytest.mark.parametrize("transport", _QUERIES)
def test_what_a_frozen_tab_has_missed_comes_when_it_is_thawed(
    open_tab: Callable[[str], Tab], transport: str
) -> None:
    tab = open_tab(transport)
    conversation = begin(tab, _QUESTION)
    tab.freeze()
    check_that_it_stands_still(conversation)
    tab.thaw()
    conversation.check_the_end()
    assert conversation.transport == transport
    begin(tab, _ENDLESS)
    tab.freeze()
    check_that_it_stands_still(conversation)
    tab.thaw()
    conversation.wait_for_more()
    conversation.stop()
    until_no_model_runs(conversation.server)
    conversation.check_the_end("cancelled")


@pytest.mark.parametrize("transport", _QUERIES)
def test_stop_in_the_moment_of_thawing_stops_the_model(
    open_tab: Callable[[str], Tab], transport: str
) -> None:
    """There may be no connection yet: then what is on the screen stays, and nothing of what was
    missed is waited for.
    """
    tab = open_tab(transport)
    conversation = begin(tab, _ENDLESS)
    tab.freeze()
    check_that_it_stands_still(conversation)
    tab.thaw()
    conversation.stop()
    until_no_model_runs(conversation.server)
    conversation.wait_for("cancelled")
    assert conversation.logged()["full_text"].startswith(conversation.shown)
    conversation.check_what_was_seen()


@pytest.mark.parametrize("transport", _QUERIES)
def test_an_answer_that_ended_while_the_tab_was_frozen_and_disconnected_is_whole(
    open_tab: Callable[[str], Tab], network: RoughNetwork, transport: str
) -> None:
    tab = open_tab(transport)
    conversation = begin(tab, _ENDLESS)
    tab.freeze()
    network.cut()
    check_that_it_stands_still(conversation)
    conversation.cancel_elsewhere()
    until_no_model_runs(conversation.server)
    tab.thaw()
    conversation.check_the_end("cancelled")


@pytest.mark.parametrize("transport", _QUERIES)
def test_a_hidden_tab_is_given_its_answer_to_the_end(
    open_tab: Callable[[str], Tab], transport: str
) -> None:
    tab = open_tab(transport)
    conversation = begin(tab, _QUESTION)
    tab.hide()
    conversation.check_the_end()
    begin(tab, _ENDLESS)
    conversation.page.locator("evenflow-chat").evaluate("it => it.stop()")
    until_no_model_runs(conversation.server)
    conversation.check_the_end("cancelled")


def test_a_tab_that_is_hidden_at_the_very_end_still_ends(open_tab: Callable[[str], Tab]) -> None:
    """The last of the text waits for a frame, and then there are no more frames."""
    tab = open_tab("websocket")
    conversation = tab.conversation
    for seed in range(3):
        conversation.page.evaluate(
            """() => {
                window.completed = new Promise((completed) =>
                    addEventListener("evenflow-event", function end({ detail }) {
                    if (detail.type !== "completed") return;
                    removeEventListener("evenflow-event", end);
                    completed();
                }));
            }"""
        )
        conversation.ask(demo(tokens=40, gap_ms=40, seed=seed))
        conversation.page.evaluate("window.completed")
        tab.hide()
        conversation.check_the_end()
        tab.show()
