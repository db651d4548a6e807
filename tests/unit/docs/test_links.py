"""Links of the README and of the documentation lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "web" / "README.md",
]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r'<a (?:id|name)="([^"]+)">')
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _anchors(text: str) -> set[str]:
    """Of its headings, as GitHub makes them, and those that it names itself."""
    made = {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(text)
    }
    return made | set(_NAMED.findall(text))


def _leads_somewhere(link: str, page: Path) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    return target.exists() and (not anchor or anchor in _anchors(target.read_text("utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_leads_somewhere(page: Path) -> None:
    links = _LINK.findall(_CODE.sub("", page.read_text("utf-8")))
    local = [link for link in links if not link.startswith(("https://", "http://"))]
    assert [link for link in local if not _leads_somewhere(link, page)] == []
