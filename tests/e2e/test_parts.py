"""What an answer has beside its text, in a real browser: reasoning, tools, sources, formulas and
coloured code, for everybody and within the page's policy.
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.e2e.test_element import OpenPage, ask, open_chat, serious, wait_for
from tests.integration.conftest import ServeProcess
from tests.integration.server_process import ServerProcess
from tests.integration.stock_clients.backends import running_backend

_THOUGHT = re.compile(r"Thought for \d+ s")
_UNTIMED = re.compile(r"^Thought(s| for \d+ s)")
_QUESTION = "Do I need a coat in Oslo today?"
_SAID = "Yes, take a warm coat: it is −4 °C in Oslo now, and snow is to come at noon."
_TOOL = {"type": "tool", "name": "weather", "arguments": "", "isComplete": False}
_MATHS = r"""The energy is $E = mc^2$, and

\[
\boxed{\sum_{n=1}^{\infty} \frac{1}{n^2} = \frac{\pi^2}{6}} \quad \colorbox{red}{x}
\]

```python
def energy(mass: float) -> float:
    return mass * 299_792_458**2  # joules
```
"""


def part(position: int, kind: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """An event as the client tells it."""
    return {"type": "part", "position": position, "part": {**kind, **changes}}


def reasoning(text: str) -> dict[str, Any]:
    return part(0, {"type": "reasoning"}, text=text)


def with_parts(open_page: OpenPage, server: ServerProcess, **script: Any) -> Page:
    """The page, with a model that thinks, calls a tool and names its source."""
    whole = {"arguments": '{"city":"Oslo"}', "isComplete": True}
    pieces: list[Any] = [
        *(reasoning("The weather there changes. " * words) for words in range(1, 40)),
        part(1, _TOOL),
        part(1, _TOOL, arguments='{"city":'),
        part(1, _TOOL, **whole),
        part(1, _TOOL, **whole, result='{"celsius":-4}'),
        "Yes, take a **warm coat**: it is −4 °C in Oslo now",
        part(
            3, {"type": "source", "url": "https://example.com/oslo", "title": "The weather in Oslo"}
        ),
        part(4, {"type": "source", "url": "javascript:alert(1)", "title": "A thermometer"}),
        ", and snow is to come at noon.",
    ]
    return open_chat(open_page, server, "", **{"pieces": pieces, "gapMs": 30, **script})


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 360])
def test_axe_finds_nothing_serious_in_parts(
    open_page: OpenPage, server: ServerProcess, scheme: Any, width: int
) -> None:
    page = with_parts(open_page, server)
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 780})
    ask(page, _QUESTION)
    expect(page.get_by_test_id("status")).to_have_text("Thinking…")
    assert serious(page) == []
    wait_for(page, "done")
    page.get_by_text(_THOUGHT).click()
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.violations") == []


def test_the_picture_of_parts(
    open_page: OpenPage, serve_process: ServeProcess, tmp_path: Path
) -> None:
    """What the agent in `examples/` gives. With SCREENSHOTS=docs/images the picture is kept."""
    agent = "tests.integration.stock_clients.python.shop_agent"
    with running_backend(agent, tmp_path / "agent.log") as url:
        page = open_page(serve_process(model="openai", model_url=url).http_url)
        page.set_viewport_size({"width": 1000, "height": 860})
        ask(page, "Can I buy two city bikes today?")
        wait_for(page, "done")
    expect(page.get_by_text(_THOUGHT)).to_be_in_viewport()
    card = page.get_by_test_id("tool")
    expect(card).to_contain_text("in_stock")
    expect(card.get_by_label("Result")).to_have_text('{\n  "left": 7\n}')
    expect(page.locator("article.answer .markdown")).to_contain_text("we have 7 city bikes")
    if folder := os.environ.get("SCREENSHOTS"):
        picture = Image.open(io.BytesIO(page.screenshot()))
        picture.save(Path(folder) / "parts.webp", lossless=True)


def test_reasoning_is_folded_and_opened_by_keyboard(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = with_parts(open_page, server)
    ask(page, _QUESTION)
    wait_for(page, "done")
    thought = page.get_by_test_id("reasoning")
    expect(thought.get_by_text("The weather there changes.")).to_be_hidden()
    thought.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(thought.get_by_text("The weather there changes.")).to_be_visible()
    card = page.get_by_test_id("tool")
    expect(card.get_by_label("Arguments")).to_have_text('{\n  "city": "Oslo"\n}')
    expect(card.get_by_label("Result")).to_have_text('{\n  "celsius": -4\n}')
    sources = page.get_by_role("navigation", name="Sources")
    expect(sources.get_by_role("link")).to_have_count(1)
    expect(sources.get_by_role("link")).to_have_attribute("href", "https://example.com/oslo")
    expect(page.locator("article.answer .markdown")).to_have_text(_SAID)


@pytest.mark.parametrize("transport", ["websocket", "sse", "poll"])
def test_the_demo_models_parts_are_drawn_whatever_the_way(
    open_page: OpenPage, server: ServerProcess, transport: str
) -> None:
    page = open_page(f"{server.http_url}/?transport={transport}")
    ask(page, "#demo reasoning=30 searches=2 sources=2 tokens=60 gap_ms=10")
    wait_for(page, "done")
    kinds = "all => all.map((it) => it.className)"
    children = page.get_by_test_id("answer").locator("> *")
    assert children.evaluate_all(kinds) == ["reasoning", "tool", "tool", "markdown"]
    expect(page.locator(".tool-state")).to_have_text(["Done", "Done"])
    expect(page.get_by_test_id("sources").get_by_role("link")).to_have_text(
        ["Source 1", "Source 2"]
    )
    shown = page.get_by_test_id("answer").evaluate("it => it.textContent")
    page.reload()
    expect(page.get_by_test_id("tool")).to_have_count(2)
    assert children.evaluate_all(kinds) == ["reasoning", "tool", "tool", "markdown"]
    again = page.get_by_test_id("answer").evaluate("it => it.textContent")
    assert _UNTIMED.sub("", again) == _UNTIMED.sub("", shown)


def test_an_error_stands_behind_what_has_come(open_page: OpenPage, server: ServerProcess) -> None:
    page = with_parts(open_page, server, fails=True)
    ask(page, _QUESTION)
    wait_for(page, "error")
    expect(page.locator("article.answer .markdown")).to_have_text(_SAID)
    expect(page.locator("article.answer ~ .error")).to_be_visible()
    expect(page.get_by_test_id("error").get_by_role("button", name="Try again")).to_be_visible()


def test_formulas_and_code_are_drawn_within_the_policy(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_chat(open_page, server, _MATHS)
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(Path(request.url).name.partition("-")[0]))
    ask(page, "Show me")
    wait_for(page, "done")
    expect(page.locator("math")).to_have_count(2)
    expect(page.locator('math[display="block"] mfrac')).to_have_count(2)
    expect(page.locator("code .hljs-keyword").first).to_have_text("def")
    assert sorted(loaded) == ["code", "maths"]
    assert page.locator("math").first.evaluate("it => it.getBoundingClientRect().height") > 0
    assert page.evaluate("window.violations") == []
    assert serious(page) == []


def test_nothing_is_loaded_for_an_answer_that_needs_nothing(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_chat(open_page, server, "It costs $5, or **$6**.")
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    ask(page, "How much?")
    wait_for(page, "done")
    expect(page.get_by_test_id("answer")).to_have_text("It costs $5, or $6.")
    assert loaded == []
