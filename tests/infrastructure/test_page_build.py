"""A synthesis builds the page where it is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenflow.infra import page_build
from evenflow.infra.constructs.edge.web_client import PageNotBuiltError


def _checkout(folder: Path, monkeypatch: pytest.MonkeyPatch, build: str) -> Path:
    """The folder of a page that npm builds by a command, with its packages."""
    (folder / "node_modules").mkdir()
    (folder / "package.json").write_text(json.dumps({"name": "page", "scripts": {"build": build}}))
    monkeypatch.setattr(page_build, "_WEB", folder)
    monkeypatch.setattr(page_build, "built_page", lambda: folder / "dist")
    return folder / "dist" / "index.html"


def test_a_missing_page_is_built_and_one_that_is_there_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = _checkout(tmp_path, monkeypatch, "mkdir dist && echo built > dist/index.html")
    page_build.build_missing_page()
    assert page.read_text() == "built\n"
    page.write_text("kept")
    page_build.build_missing_page()
    assert page.read_text() == "kept"


def test_a_page_that_npm_cannot_build_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _checkout(tmp_path, monkeypatch, "echo no such module >&2; exit 3")
    with pytest.raises(PageNotBuiltError, match=r"npm run failed in web/.*\n.*no such module"):
        page_build.build_missing_page()


def test_without_npm_it_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _checkout(tmp_path, monkeypatch, "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PageNotBuiltError, match=r"so is npm, which builds it: install Node\.js"):
        page_build.build_missing_page()
