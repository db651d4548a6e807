"""The README's two lines on pages as people have them: the chat is usable there as pasted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.host_pages import HOSTS
from tests.e2e.other_site import OtherSite, other_site
from tests.e2e.readme_snippets import at, blocks
from tests.e2e.test_element import ask, findings_in_chat, wait_for
from tests.integration.conftest import ServeProcess
from tests.integration.server_process import ServerProcess

(_ELEMENT,) = blocks("html")
_SCRIPTED = (Path(__file__).parent / "scripted_client.js").read_text("utf-8")
_ANSWER = [
    "A reader that falls behind is given what it missed ", "**joined into one frame**.\n\n",
    "1. The log keeps every delta.\n2. A cursor waits while the socket is full.\n\n",
    "```python\nself.socket.send(self.log.joined(self.cursor))  # all that was missed\n```\n\n",
    "| behind by | what happens |\n|---|---|\n| 64 deltas or 10 s | a `lag` frame |\n\n",
]  # fmt: skip
_WIDTHS = {320: 640, 375: 667, 768: 1024, 1280: 800}
_LIGHT, _DARK = "rgb(246, 247, 245)", "rgb(14, 19, 18)"
_GEOMETRY = """() => {
  const root = document.querySelector("evenflow-chat").shadowRoot;
  const box = root.querySelector("form").getBoundingClientRect();
  const { scrollHeight, scrollTop, clientHeight } = root.querySelector(".scroller");
  return {
    insideSideways: box.left >= 0 && box.right <= innerWidth,
    insideUpright: box.top >= 0 && box.bottom <= innerHeight,
    scrolls: scrollHeight > clientHeight + 100,
    room: clientHeight,
    toEnd: scrollHeight - scrollTop - clientHeight,
    sideways: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  };
}"""
_INHERITED = """() => {
  const root = document.querySelector("evenflow-chat").shadowRoot;
  const style = getComputedStyle(root.querySelector(".question"));
  return [...style].filter((name) => !name.startsWith("--"))
      .map((name) => `${name}: ${style.getPropertyValue(name)}`);
}"""


@pytest.fixture(scope="module")
def site() -> Iterator[OtherSite]:
    with other_site() as running:
        yield running


@pytest.fixture(scope="module")
def server(serve_module: ServeProcess, site: OtherSite) -> ServerProcess:
    """One that lets the site's pages call."""
    return serve_module(allowed_origins=site.origin)


def _open(open_page: OpenPage, site: OtherSite, server: ServerProcess, host: str) -> Page:
    """A page of the site with the chat in it, and a model that answers at length."""
    content = HOSTS[host].format(chat=at(server, _ELEMENT))
    page = open_page(site.page(f'<meta name="viewport" content="width=device-width">{content}'))
    page.wait_for_function("customElements.get('evenflow-chat') !== undefined")
    page.evaluate(_SCRIPTED, {"pieces": _ANSWER * 4, "gapMs": 20})
    return page


@pytest.mark.parametrize("host", HOSTS)
def test_the_chat_is_usable_as_pasted(
    open_page: OpenPage, site: OtherSite, server: ServerProcess, host: str
) -> None:
    """With SCREENSHOTS=folder pictures are kept."""
    page = _open(open_page, site, server, host)
    for width, height in _WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        ask(page, "How are slow readers treated?")
        wait_for(page, "streaming")
        wait_for(page, "done")
        seen: dict[str, Any] = page.evaluate(_GEOMETRY)
        assert (seen["insideSideways"], seen["insideUpright"]) == (True, True), (width, seen)
        assert (seen["scrolls"], seen["sideways"]) == (True, 0), (width, seen)
        assert seen["toEnd"] < 2, (width, seen)
        assert seen["room"] >= 150, (width, seen)
        assert findings_in_chat(page) == []
        if folder := os.environ.get("SCREENSHOTS"):
            page.screenshot(path=Path(folder) / f"host-{host}-{width}.png")


@pytest.mark.parametrize(("host", "least"), [("flex", 600), ("grid", 600), ("block", 790)])
def test_the_chat_fills_a_box_that_has_room(
    open_page: OpenPage, site: OtherSite, server: ServerProcess, host: str, least: int
) -> None:
    page = _open(open_page, site, server, host)
    page.set_viewport_size({"width": 1280, "height": 800})
    box = page.locator("evenflow-chat").bounding_box()
    assert box is not None
    assert box["height"] >= least
    assert box["y"] + box["height"] == 800


def test_no_style_of_text_comes_in_from_the_page(
    open_page: OpenPage, site: OtherSite, server: ServerProcess
) -> None:
    seen = []
    for host in ("bare", "text"):
        page = _open(open_page, site, server, host)
        page.set_viewport_size({"width": 768, "height": 800})
        ask(page, "Well?")
        wait_for(page, "done")
        seen.append(page.evaluate(_INHERITED))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("system", "page_style", "attribute", "background"),
    [
        ("dark", "", "", _LIGHT),
        ("dark", "light", "", _LIGHT),
        ("dark", "light dark", "", _DARK),
        ("light", "dark", "", _DARK),
        ("light", "", 'theme="dark"', _DARK),
        ("dark", "dark", 'theme="light"', _LIGHT),
        ("dark", "", 'theme="auto"', _DARK),
        ("light", "dark", 'theme="auto"', _LIGHT),
    ],
)
def test_light_or_dark_is_the_page_s_unless_the_theme_says_otherwise(
    open_page: OpenPage,
    site: OtherSite,
    server: ServerProcess,
    system: Any,
    page_style: str,
    attribute: str,
    background: str,
) -> None:
    chat = at(server, _ELEMENT).replace("<evenflow-chat", f"<evenflow-chat {attribute}")
    page = open_page(site.page(f"<style>:root {{ color-scheme: {page_style} }}</style>{chat}"))
    page.emulate_media(color_scheme=system)
    element = page.locator("evenflow-chat")
    expect(element).to_have_css("background-color", background)
    if attribute == "":
        page.evaluate("document.documentElement.style.colorScheme = 'dark'")
        expect(element).to_have_css("background-color", _DARK)
        expect(page.get_by_test_id("question")).to_have_css("color", "rgb(232, 238, 236)")


@pytest.mark.parametrize(
    ("attribute", "background"),
    [("", _LIGHT), ('theme="auto"', _DARK), ('theme="dark"', _DARK), ('theme="light"', _LIGHT)],
)
def test_an_older_browser_goes_by_the_theme(
    open_page: OpenPage, site: OtherSite, server: ServerProcess, attribute: str, background: str
) -> None:
    """One without `light-dark()`, as Safari 17.4 is."""
    page = open_page("about:blank")
    page.add_init_script("CSS.supports = () => false")
    page.emulate_media(color_scheme="dark")
    chat = at(server, _ELEMENT).replace("<evenflow-chat", f"<evenflow-chat {attribute}")
    page.goto(site.page(chat))
    expect(page.locator("evenflow-chat")).to_have_css("background-color", background)
    rules: list[str] = page.locator("evenflow-chat").evaluate(
        "it => [...it.shadowRoot.adoptedStyleSheets[0].cssRules].map((rule) => rule.cssText)"
    )
    assert not [rule for rule in rules if "light-dark" in rule]


# -- the reader's place ----------------------------------------------------------------------------


_NEXT_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_RESTORED = """(text) => {
  const message = (id) => ({
    messageId: id, responseId: `r-${id}`, question: `Question ${id}`, status: "completed", text,
    parts: [{ type: "text", text }], finishReason: "stop", error: null,
  });
  document.querySelector("evenflow-chat").client = {
    ask: () => { throw new Error("not here"); },
    resumable: null, transport: null, connection: "open", isResumed: true,
    messages: async () => ({ messages: ["m1", "m2", "m3"].map(message), before: null }),
    on: () => () => {},
  };
}"""
_MATHS = "**/assets/maths-*.js"
_FORMULA = r"\[ \sum_{n=1}^{\infty} \frac{1}{\frac{n^2}{\frac{2}{3}}} = \frac{\pi^2}{6} \]"
_FORMULAS = "\n\n".join(f"Line {number}.\n\n{_FORMULA}" for number in range(20))


def _to_end(page: Page) -> float:
    seen: float = page.evaluate(_GEOMETRY)["toEnd"]
    return seen


def _hold_formulas(page: Page) -> list[Route]:
    """Has the library of formulas wait to be let go."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(_MATHS, hold)
    return held


def _let_go(page: Page, held: list[Route], formulas: int) -> None:
    for route in held:
        route.continue_()
    page.unroute(_MATHS)
    expect(page.locator("math")).to_have_count(formulas)


def _line(page: Page) -> Locator:
    """The sixth line of the second answer."""
    return page.get_by_test_id("answer").nth(1).get_by_text("Line 5.", exact=True)


def _seen_line(page: Page) -> float:
    """Where on the screen it is."""
    box = _line(page).bounding_box()
    assert box is not None
    return box["y"]


def test_formulas_that_come_late_do_not_lose_the_end(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page(server.http_url)
    held = _hold_formulas(page)
    page.evaluate(_SCRIPTED, {"pieces": [_FORMULAS], "gapMs": 2})
    ask(page, "Show me")
    wait_for(page, "done")
    assert _to_end(page) < 2
    _let_go(page, held, 20)
    page.evaluate(_NEXT_FRAMES)
    assert _to_end(page) < 2


def test_a_reload_leads_to_the_end_and_formulas_that_come_late_do_not_lose_it(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page(server.http_url)
    held = _hold_formulas(page)
    page.evaluate(_RESTORED, _FORMULAS)
    expect(page.get_by_test_id("answer")).to_have_count(3)
    page.evaluate(_NEXT_FRAMES)
    assert _to_end(page) < 2
    _let_go(page, held, 60)
    page.evaluate(_NEXT_FRAMES)
    assert _to_end(page) < 2


def test_a_reload_leads_to_where_the_reader_was(open_page: OpenPage, server: ServerProcess) -> None:
    page = open_page(server.http_url)
    page.evaluate(_RESTORED, _FORMULAS)
    expect(page.locator("math")).to_have_count(60)
    _line(page).scroll_into_view_if_needed()
    expect(page.get_by_test_id("to-end")).to_be_visible()
    before = _seen_line(page)
    page.reload()
    held = _hold_formulas(page)
    page.evaluate(_RESTORED, _FORMULAS)
    expect(page.get_by_test_id("answer")).to_have_count(3)
    expect(page.get_by_test_id("to-end")).to_be_visible()
    _let_go(page, held, 60)
    page.evaluate(_NEXT_FRAMES)
    assert abs(_seen_line(page) - before) < 3
    page.get_by_test_id("to-end").click()
    page.reload()
    page.evaluate(_RESTORED, _FORMULAS)
    expect(page.locator("math")).to_have_count(60)
    assert _to_end(page) < 2


def test_a_reload_of_a_long_answer_leads_to_its_end(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page(server.http_url)
    ask(page, "#demo tokens=900 gap_ms=1 seed=5")
    wait_for(page, "streaming")
    wait_for(page, "done")
    page.reload()
    wait_for(page, "idle")
    expect(page.get_by_test_id("answer")).to_have_count(1)
    page.evaluate(_NEXT_FRAMES)
    assert page.evaluate(_GEOMETRY)["scrolls"]
    assert _to_end(page) < 2


def test_a_reader_who_scrolls_up_a_little_is_left_there(
    open_page: OpenPage, server: ServerProcess
) -> None:
    """A wheel begins with a few pixels: if these were taken back, nobody could leave the end."""
    page = open_page(server.http_url)
    page.evaluate(_SCRIPTED, {"pieces": ["A line of the answer.\n\n"] * 400, "gapMs": 10})
    ask(page, "At length")
    page.wait_for_function(f"() => ({_GEOMETRY})().scrolls")
    page.locator(".scroller").evaluate("it => { it.scrollTop -= 20 }")
    expect(page.get_by_test_id("to-end")).to_be_visible()
    page.get_by_test_id("to-end").click()
    expect(page.get_by_test_id("to-end")).to_be_hidden()
    page.get_by_test_id("stop").click()
    wait_for(page, "cancelled")
    assert _to_end(page) < 2
