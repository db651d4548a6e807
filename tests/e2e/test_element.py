"""`<evenflow-chat>` in a real browser: hostile text stays text, everybody can use it, and it is
drawn evenly.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.integration.server_process import ROOT, ServerProcess

OpenPage = Callable[[str], Page]
_SCRIPTED = (Path(__file__).parent / "scripted_client.js").read_text("utf-8")
_AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
_AT_REST = """async () => {
  const roots = (root) =>
    [root, ...[...root.querySelectorAll('*')].flatMap(
        (it) => (it.shadowRoot ? roots(it.shadowRoot) : []))];
  const transient = () =>
    roots(document).flatMap((it) => it.getAnimations())
        .filter((it) => it.effect.getComputedTiming().endTime < Infinity);
  for (let moving = transient(); moving.length > 0; moving = transient())
    await Promise.allSettled(moving.map((it) => it.finished));
}"""
# An answer's headings are below those of any page, whichever level its last one has.
_FOUND_IN_CHAT = """async () => (await axe.run(document, {
  rules: { "heading-order": { enabled: false } },
})).violations.flatMap(({ id, nodes }) =>
  nodes.filter(({ target }) => target.flat().some((it) => it.includes('evenflow-chat')))
      .map(({ target, failureSummary }) => `${id}: ${target} ${failureSummary}`))"""
_HOSTILE = """<script>window.hacked = 1</script>
<img src=x onerror="window.hacked = 2"><svg onload="window.hacked = 3">

[click](javascript:window.hacked=4) [data](data:text/html,<script>alert(1)</script>)
![](javascript:alert(1))

![pixel](https://tracker.example/pixel.png) <style>* { display: none }</style>
<iframe srcdoc="<b>x</b>"></iframe>

| <b>a</b> | b |
|:--|--:|
| 1 | 2 |

"""
_RICH = """A reader that falls behind is given what it missed **joined into one frame**. \
Nothing is lost, because text \
concatenates:

1. The log keeps every delta, numbered by its *index*.
2. A cursor waits while the socket is full, and moves when it takes data again.

```python
def deliver(self) -> None:
    while self.cursor < len(self.log) and self.socket.takes_data:
        self.socket.send(self.log.joined(self.cursor))
        self.cursor = len(self.log)
```

| behind by | what happens |
|---|---|
| 64 deltas or 10 s | a `lag` frame |
| 256 KB or 30 s | close 4008, with the resume point |

See [the protocol](https://example.com/protocol) for every frame.
"""


def open_chat(open_page: OpenPage, server: ServerProcess, text: str, **script: Any) -> Page:
    """The page, with a model that answers `text` in small pieces."""
    page = open_page(server.http_url)
    page.evaluate(
        "() => { window.violations = []; addEventListener('securitypolicyviolation', "
        "(event) => window.violations.push(event.violatedDirective + ' ' + event.blockedURI)); }"
    )
    pieces = [text[start : start + 7] for start in range(0, len(text), 7)]
    page.evaluate(_SCRIPTED, {"pieces": pieces, "gapMs": 4, **script})
    return page


def ask(page: Page, question: str) -> None:
    page.get_by_test_id("question").fill(question)
    page.keyboard.press("Enter")


def wait_for(page: Page, state: str) -> None:
    expect(page.get_by_test_id("status")).to_have_attribute("data-state", state, timeout=20_000)


def serious(page: Page) -> list[str]:
    """What axe finds serious or critical, in the page and in the element's shadow, once colours
    have stopped fading.
    """
    page.evaluate(_AT_REST)
    page.evaluate(_AXE.read_text("utf-8"))
    found = page.evaluate("async () => (await axe.run(document)).violations")
    return [
        f"{it['id']}: {node['target']} {node['failureSummary']}"
        for it in found
        if it["impact"] in ("serious", "critical")
        for node in it["nodes"]
    ]


def findings_in_chat(page: Page) -> list[str]:
    """All that axe finds in the element; what it misses in the page around is the page's."""
    page.evaluate(_AT_REST)
    page.evaluate(_AXE.read_text("utf-8"))
    found: list[str] = page.evaluate(_FOUND_IN_CHAT)
    return found


def test_hostile_markdown_is_inert_and_the_policy_has_nothing_to_block(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_chat(
        open_page, server, _HOSTILE + _RICH + "```\nnever closed <script>window.hacked = 5</script>"
    )
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    ask(page, "Be hostile")
    wait_for(page, "done")
    answer = page.get_by_test_id("answer")
    assert (
        answer.locator("script, img, svg, iframe, style, [onerror], [onload], [style]").count() == 0
    )
    links = answer.locator("a").evaluate_all(
        "all => all.map((it) => [it.protocol, it.rel, it.target])"
    )
    assert links
    assert {tuple(it) for it in links} == {("https:", "noopener noreferrer nofollow", "_blank")}
    assert "<script>window.hacked = 1</script>" in answer.inner_text()
    assert "never closed <script>" in answer.locator("pre code").last.inner_text()
    assert page.evaluate("[window.hacked ?? null, window.violations]") == [None, []]
    assert all(url.startswith(f"{server.http_url}/assets/code-colours-") for url in requests)


def test_the_policy_blocks_what_would_be_inline(open_page: OpenPage, server: ServerProcess) -> None:
    page = open_chat(open_page, server, "x")
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\" "
        'onclick="x()">a</p>\')'
    )
    page.evaluate("document.body.lastElementChild.click()")
    violations = page.wait_for_function(
        "window.violations.length >= 2 && window.violations"
    ).json_value()
    assert {it.split()[0] for it in violations} == {"style-src-attr", "script-src-attr"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 360])
def test_axe_finds_nothing_serious(
    open_page: OpenPage, server: ServerProcess, scheme: Any, width: int
) -> None:
    page = open_chat(open_page, server, _RICH)
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 960 if width > 500 else 780})
    assert serious(page) == []
    ask(page, "How does Evenflow treat slow readers?")
    wait_for(page, "streaming")
    assert serious(page) == []
    wait_for(page, "done")
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 360])
def test_the_demo_models_answers_are_drawn(
    open_page: OpenPage, server: ServerProcess, scheme: Any, width: int
) -> None:
    """And, with SCREENSHOTS=docs/images, the pictures of the README are taken."""
    page = open_page(server.http_url)
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900 if width > 500 else 780})
    ask(page, "What happens when I close the tab?")
    wait_for(page, "streaming")
    wait_for(page, "done")
    ask(page, "How do I use it from my OpenAI code?")
    answer = page.get_by_test_id("answer").last
    expect(answer.locator("li")).not_to_have_count(0, timeout=20_000)
    _picture(page, "page" if (scheme, width) == ("light", 1000) else None)
    wait_for(page, "done")
    expect(answer.locator("pre code")).to_contain_text("base_url=")
    expect(answer.locator("li")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    _picture(page, f"chat-{scheme}" if width > 500 else f"chat-phone-{scheme}")


def _picture(page: Page, name: str | None) -> None:
    if name is not None and (folder := os.environ.get("SCREENSHOTS")):
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_an_error_is_told_and_can_be_asked_again(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_chat(open_page, server, "This far, and", fails=True)
    ask(page, "Fail")
    wait_for(page, "error")
    expect(page.get_by_test_id("error")).to_contain_text("cannot be reached")
    assert page.get_by_test_id("answer").inner_text() == "This far, and"
    assert serious(page) == []
    page.get_by_role("button", name="Try again").focus()
    page.keyboard.press("Enter")
    wait_for(page, "streaming")
    wait_for(page, "error")
    expect(page.get_by_test_id("error")).to_have_count(1)
    assert page.get_by_test_id("answer").count() == 1


def test_everything_can_be_done_by_keyboard(open_page: OpenPage, server: ServerProcess) -> None:
    page = open_chat(open_page, server, _RICH, hangs=True)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    def focused() -> str:
        deepest = (
            "() => { let it = document.activeElement; while (it?.shadowRoot?.activeElement) it = "
            "it.shadowRoot.activeElement;return it?.dataset?.testid ?? it?.textContent ?? ''; }"
        )
        text: str = page.evaluate(deepest)
        return text

    def tab_to(wanted: str, key: str = "Tab") -> None:
        for _ in range(30):
            if focused() == wanted:
                return
            page.keyboard.press(key)
        raise AssertionError(f"{wanted} cannot be reached by {key}; the focus is on {focused()}")

    tab_to("What is Evenflow?")
    page.keyboard.press("Enter")
    wait_for(page, "streaming")
    tab_to("stop")
    page.keyboard.press("Enter")
    wait_for(page, "cancelled")
    assert focused() == "question"
    tab_to("copy", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("copy")).to_have_text("Copied")
    source = page.locator("evenflow-chat").evaluate("it => it.lastText")
    assert page.evaluate("navigator.clipboard.readText()") == source
    tab_to("retry")
    page.keyboard.press("Enter")
    wait_for(page, "streaming")
    page.keyboard.press("Escape")
    wait_for(page, "cancelled")
    assert page.get_by_test_id("answer").count() == 1, (
        "the new answer took the place of the old one"
    )


def test_code_is_copied_as_it_is(open_page: OpenPage, server: ServerProcess) -> None:
    page = open_chat(open_page, server, _RICH)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page, "Show code")
    wait_for(page, "done")
    page.get_by_role("button", name="Copy code, python").click()
    expect(page.locator(".copy-code")).to_have_text("Copied")
    copied: str = page.evaluate("navigator.clipboard.readText()")
    assert copied == _RICH.split("```python\n")[1].split("\n```", maxsplit=1)[0]


def test_code_is_copied_on_a_page_without_a_clipboard(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_chat(open_page, server, _RICH)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.evaluate(
        "addEventListener('copy', () => { window.copied = document.activeElement.value })"
    )
    ask(page, "Show code")
    wait_for(page, "done")
    button = page.get_by_role("button", name="Copy code, python")
    button.click()
    expect(page.locator(".copy-code")).to_have_text("Copied")
    assert (
        page.evaluate("window.copied")
        == _RICH.split("```python\n")[1].split("\n```", maxsplit=1)[0]
    )
    expect(button).to_be_focused()


@pytest.mark.parametrize(
    ("width", "height", "least"), [(667, 375, 240), (360, 740, 480), (1000, 700, 450)]
)
def test_the_answer_has_room_and_buttons_can_be_hit(
    open_page: OpenPage, server: ServerProcess, width: int, height: int, least: int
) -> None:
    page = open_chat(open_page, server, _RICH)
    page.set_viewport_size({"width": width, "height": height})
    expect(page.get_by_test_id("question")).to_be_focused()
    ask(page, "How does it treat slow readers?")
    wait_for(page, "done")
    expect(page.get_by_test_id("question")).to_be_focused()
    scroller = page.locator(".scroller")
    assert scroller.evaluate("it => it.clientHeight") >= least
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.locator("button:visible").evaluate_all(
        "all => all.map((it) => [it.textContent, it.getBoundingClientRect()])"
        ".filter(([, box]) => box.width < 40 || box.height < 40).map(([text]) => text)"
    )
    assert small == []


def test_whoever_has_scrolled_up_is_led_back_to_the_end(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_chat(open_page, server, _RICH * 4)
    ask(page, "At length")
    wait_for(page, "done")
    to_end = page.get_by_test_id("to-end")
    expect(to_end).to_be_hidden()
    scroller = page.locator(".scroller")
    scroller.evaluate("it => { it.scrollTop = 0 }")
    expect(to_end).to_be_visible()
    to_end.click()
    expect(to_end).to_be_hidden()
    assert scroller.evaluate("it => it.scrollHeight - it.scrollTop - it.clientHeight") < 60


def test_screen_readers_hear_sentences(open_page: OpenPage, server: ServerProcess) -> None:
    page = open_chat(
        open_page,
        server,
        "It is **even**. It loses `nothing`!\n\n```js\nlet a;\n```\n- One [link](https://a.b)",
    )
    page.evaluate(
        """() => {
            window.said = [];
            const element = document.querySelector("evenflow-chat");
            const region = element.shadowRoot.querySelector("[aria-live=polite]");
            new MutationObserver((changes) => {
                for (const { addedNodes } of changes)
                    for (const node of addedNodes) window.said.push(node.textContent);
            }).observe(region, { childList: true });
        }"""
    )
    ask(page, "Speak")
    wait_for(page, "done")
    assert page.evaluate("window.said") == [
        "It is even.",
        "It loses nothing!",
        "Code, js.",
        "One link",
        "Answer complete.",
    ]


def draws(page: Page) -> int:
    return int(page.get_by_test_id("answer").last.get_attribute("data-steps") or 0)


def test_what_comes_in_lumps_is_drawn_evenly_unless_stillness_is_preferred(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page(server.http_url)
    page.clock.install()
    lumps = ["a lump of forty characters comes at once. "] * 6
    page.evaluate(_SCRIPTED, {"pieces": lumps, "gapMs": 600})
    ask(page, "Smoothly")
    # Turned by hand, since a busy machine draws few frames in 600 ms.
    page.clock.run_for(len(lumps) * 600 + 1_000)
    wait_for(page, "done")
    assert draws(page) > 3 * len(lumps)
    page.emulate_media(reduced_motion="reduce")
    ask(page, "On arrival")
    wait_for(page, "streaming")
    page.clock.run_for(len(lumps) * 600 + 1_000)
    wait_for(page, "done")
    assert draws(page) == len(lumps)
    assert page.locator("evenflow-chat").evaluate("it => it.lastText") == "".join(lumps)


def test_what_a_restart_replaces_is_gone_from_the_screen(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_page(server.http_url)
    pieces = [
        "It stays. ",
        "It is replaced, and ```",
        {"type": "restarted", "keep": 10},
        "It came instead.",
    ]
    page.evaluate(_SCRIPTED, {"pieces": pieces, "gapMs": 200})
    ask(page, "Begin again")
    wait_for(page, "done")
    assert page.get_by_test_id("answer").inner_text() == "It stays. It came instead."


def test_an_answer_that_a_reload_has_interrupted_goes_on_at_once(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = open_chat(open_page, server, "And here it goes on.", resumes="Where were we?")
    wait_for(page, "done")
    expect(page.get_by_role("article", name="Your question")).to_have_text("Where were we?")
    assert page.get_by_test_id("answer").inner_text() == "And here it goes on."


def test_its_look_follows_the_page_s_properties(open_page: OpenPage, server: ServerProcess) -> None:
    page = open_page(server.http_url)
    page.evaluate("document.documentElement.style.setProperty('--evenflow-accent', 'rgb(1, 2, 3)')")
    expect(page.get_by_test_id("ask")).to_have_css("background-color", "rgb(1, 2, 3)")
