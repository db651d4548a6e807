"""The README's blocks of code, as they stand there."""

from __future__ import annotations

import re

from tests.integration.server_process import ROOT, ServerProcess

_README = (ROOT / "README.md").read_text("utf-8")
LOCAL = "http://127.0.0.1:8080"


def blocks(language: str) -> list[str]:
    """Its blocks of code in a language."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", _README, re.MULTILINE | re.DOTALL)
    return [block.strip() for block in found]


def at(server: ServerProcess, snippet: str) -> str:
    """The same, with the server's port in the place of the README's."""
    assert LOCAL in snippet
    return snippet.replace(LOCAL, server.http_url)


def languages() -> set[str]:
    """The languages of its blocks."""
    return set(re.findall(r"^```(\w+)$", _README, re.MULTILINE))
