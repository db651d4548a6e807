"""The pages that say how to add something: their examples are those that tests run, and their
files are there.
"""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_UNIT = "tests/unit/fargate_handler"
EXAMPLES = {
    "docs/adding-a-token-source.md": f"{_UNIT}/token_sources/echo_source.py",
    "docs/adding-a-protocol.md": f"{_UNIT}/gateway/text_protocol.py",
}
_ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)

each_page = pytest.mark.parametrize(("page", "example"), EXAMPLES.items())


def table(page: str, heading: str) -> list[str]:
    """What the first column of the table under a heading names."""
    text = (ROOT / page).read_text("utf-8")
    return _ROW.findall(text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0])


def ours(source: str) -> set[str]:
    """The project's modules that a file imports, as their files."""
    modules = {
        node.module or ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
    }
    return {
        f"{module.removeprefix('evenflow.').replace('.', '/')}.py"
        for module in modules
        if module.split(".")[0] in ("evenflow", "tests")
    }


@each_page
def test_the_example_of_the_page_is_the_one_that_is_tested(page: str, example: str) -> None:
    source = (ROOT / example).read_text("utf-8")
    assert f"```python\n{source}```\n" in (ROOT / page).read_text("utf-8")


@each_page
def test_the_example_stands_on_what_the_page_says_and_on_nothing_else(
    page: str, example: str
) -> None:
    assert set(table(page, "What it stands on")) == ours((ROOT / example).read_text("utf-8"))


@each_page
def test_the_files_that_one_touches_are_there(page: str, example: str) -> None:
    files = table(page, "The files")
    assert len(files) >= 4
    for name in files:
        path = Path(*takewhile(lambda part: "<name>" not in part, Path(name).parts))
        assert (ROOT / path).exists(), f"{page} names {name}"
