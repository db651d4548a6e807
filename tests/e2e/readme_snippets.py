"""The blocks of code of the README, and of the pages that it sends its readers to, as they stand
there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.integration.server_process import ROOT, ServerProcess

PAGES = (
    "README.md",
    "docs/attacks.md",
    "docs/aws.md",
    "docs/benchmarks.md",
    "docs/chaos.md",
    "docs/costs.md",
    "docs/licences.md",
    "docs/protocol.md",
    "docs/tenants.md",
    "docs/tutorial.md",
    "web/README.md",
)
LOCAL = "http://127.0.0.1:8080"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r" +# .*$")
_ENDS = re.compile(r"(?<!\\)\n")


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    page: str
    language: str
    code: str


def page_text(page: str) -> str:
    """A page as it stands."""
    return (ROOT / page).read_text("utf-8")


BLOCKS = tuple(
    Block(page, language, code.strip())
    for page in PAGES
    for language, code in _BLOCK.findall(page_text(page))
)


def blocks(language: str, page: str = "README.md") -> list[str]:
    """A page's blocks of code in a language."""
    return [block.code for block in BLOCKS if (block.page, block.language) == (page, language)]


def commands(page: str | None = None) -> list[str]:
    """What a page, or all of them, tell their readers to type: lines, without the comment at
    their end.
    """
    shell = [it.code for it in BLOCKS if it.language == "sh" and page in {None, it.page}]
    return [_COMMENT.sub("", line) for code in shell for line in _ENDS.split(code)]


def at(server: ServerProcess, snippet: str) -> str:
    """The same, with the server's port in the place of the page's."""
    assert LOCAL in snippet
    return snippet.replace(LOCAL, server.http_url)
