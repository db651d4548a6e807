"""Each decision has a status and a place in the index, and a long one begins with a summary."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_FOLDER = Path(__file__).resolve().parents[3] / "docs" / "decisions"
_PAGES = sorted(_FOLDER.glob("[0-9]*.md"))
_LONG = 250
_LONGEST = 600
_STATUS = re.compile(r"^\*\*Status\.\*\* (In force|Superseded)\b", re.MULTILINE)

each_page = pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.name[:4]))


@each_page
def test_it_says_whether_it_holds(page: Path) -> None:
    text = page.read_text("utf-8")
    found = _STATUS.search(text)
    assert found is not None
    if found[1] == "Superseded":
        assert re.search(r"\]\(\d{4}-", text), "which page took its place?"


@each_page
def test_a_long_one_begins_with_a_summary(page: Path) -> None:
    text = page.read_text("utf-8")
    words = len(text.split())
    assert words <= _LONGEST
    if words > _LONG:
        assert re.search(r"\*\*Status\.\*\*[^\n]*(\n[^\n]+)*\n\n\*\*Summary\.\*\*", text)


def test_the_index_has_each_and_says_which_number_was_never_used() -> None:
    index = (_FOLDER / "README.md").read_text("utf-8")
    assert re.findall(r"\((\d{4}-[^)]+\.md)\)", index) == [page.name for page in _PAGES]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", index, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
