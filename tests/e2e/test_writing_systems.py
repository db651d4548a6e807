"""Answers in scripts of right and left, of East Asia and of pictures: each block reads in its own
direction. With SCREENSHOTS=folder pictures are kept.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.test_element import OpenPage, ask, findings_in_chat, open_chat, wait_for
from tests.integration.server_process import ServerProcess

_ARABIC = """## كيف يعمل؟

هذا نص عربي مع `code` ورابط [هنا](https://example.com) في وسطه.

- العنصر الأول
- عنصر ثانٍ عن React

1. الخطوة الأولى

> اقتباس قصير.

| الاسم | القيمة |
|---|---|
| أ | 12 |

```python
print("مرحبا")
```

`npm install` ثم شغّل البرنامج.

And this is English.
"""
_HEBREW = """## איך זה עובד?

זה טקסט בעברית עם `code` ועם [קישור](https://example.com) באמצע.

- פריט ראשון
- פריט שני על React

```js
console.log("שלום");
```
"""
_JAPANESE = """## 仕組み

これは**重要**な説明です。読者が遅れても、何も失われません。

1. ログにすべてが残ります。
2. カーソルは `index` で進みます。

| 遅れ | 結果 |
|---|---|
| 64 個 | まとめて届く |
"""
_EMOJI = """Families 👨‍👩‍👧‍👦 and flags 🇩🇪🇯🇵🇸🇦, skin tones 👍🏽👋🏿, hearts ❤️‍🔥, keycaps 1️⃣2️⃣.

- 🏳️‍🌈 a flag that is joined
- नमस्ते, สวัสดี, 안녕하세요, Ελληνικά, e\u0301
"""
_DIRECTIONS = """() => {
  const root = document.querySelector("evenflow-chat").shadowRoot;
  const blocks = root.querySelectorAll(".markdown > *");
  return [...blocks].map((it) => [it.className || it.localName, getComputedStyle(it).direction]);
}"""
# The mark at the end of a text is on the left of its first letter.
_ENDS_ON_THE_LEFT = """(it) => {
  const at = (start) => {
    const range = document.createRange();
    range.setStart(it.firstChild, start);
    range.setEnd(it.firstChild, start + 1);
    return range.getBoundingClientRect().left;
  };
  return at(it.textContent.length - 1) < at(0);
}"""


def _answered(open_page: OpenPage, server: ServerProcess, question: str, text: str) -> Page:
    page = open_chat(open_page, server, text)
    page.set_viewport_size({"width": 768, "height": 1100})
    ask(page, question)
    wait_for(page, "streaming")
    wait_for(page, "done")
    return page


def _picture(page: Page, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"writing-{name}.png")


def test_each_block_has_the_direction_of_its_text(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = _answered(open_page, server, "ما هذا!", _ARABIC)
    assert page.evaluate(_DIRECTIONS) == [
        ["h4", "rtl"],
        ["p", "rtl"],
        ["ul", "rtl"],
        ["ol", "rtl"],
        ["blockquote", "rtl"],
        ["table-scroller", "rtl"],
        ["code-block", "ltr"],
        ["p", "rtl"],  # though code is its first word
        ["p", "ltr"],
    ]
    expect(page.locator(".markdown p code").first).to_have_css("direction", "ltr")
    expect(page.locator(".markdown table")).to_have_css("direction", "rtl")
    first, second = page.locator(".markdown th").all()
    assert _left(first) > _left(second), "the first column is on the right"
    assert page.locator(".question").evaluate(_ENDS_ON_THE_LEFT)
    box = page.get_by_test_id("question")
    box.fill("سؤال آخر")
    expect(box).to_have_css("direction", "rtl")
    box.fill("Another")
    expect(box).to_have_css("direction", "ltr")
    _picture(page, "arabic")


def _left(locator: Locator) -> float:
    box = locator.bounding_box()
    assert box is not None
    return box["x"]


@pytest.mark.parametrize(
    ("name", "question", "text"),
    [
        ("hebrew", "מה זה!", _HEBREW),
        ("japanese", "これは何ですか。", _JAPANESE),
        ("emoji", "👩🏽‍🚀?", _EMOJI),
    ],
)
def test_other_scripts_arrive_as_they_are(
    open_page: OpenPage, server: ServerProcess, name: str, question: str, text: str
) -> None:
    page = _answered(open_page, server, question, text)
    seen = page.evaluate(_DIRECTIONS)
    directions = {direction for kind, direction in seen if kind != "code-block"}
    assert directions == ({"rtl"} if name == "hebrew" else {"ltr"})
    assert page.locator("evenflow-chat").evaluate("it => it.lastText") == text
    _picture(page, name)


def test_the_whole_chat_is_written_from_right_to_left_in_arabic(
    open_page: OpenPage, server: ServerProcess
) -> None:
    page = _answered(open_page, server, "ما هذا!", _ARABIC)
    page.evaluate("document.querySelector('evenflow-chat').lang = 'ar'")
    ask(page, "وما هذا!")
    wait_for(page, "streaming")
    wait_for(page, "done")
    expect(page.get_by_test_id("ask")).to_have_text("اسأل")
    assert _left(page.get_by_test_id("ask")) < _left(page.get_by_test_id("question"))
    assert findings_in_chat(page) == []
    _picture(page, "arabic-chat")
