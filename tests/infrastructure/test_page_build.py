"""A synthesis, and the build of a wheel, build the page where it is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenflow.infra.assets.page_build import PageNotBuiltError, build_missing_page


def _checkout(folder: Path, build: str) -> Path:
    """The page of a checkout where npm builds it by a command, with its packages."""
    (folder / "web" / "node_modules").mkdir(parents=True)
    package = {"name": "page", "scripts": {"build": build}}
    (folder / "web" / "package.json").write_text(json.dumps(package))
    return folder / "web" / "dist" / "index.html"


def test_a_missing_page_is_built_and_one_that_is_there_is_left(tmp_path: Path) -> None:
    page = _checkout(tmp_path, "mkdir dist && echo built > dist/index.html")
    build_missing_page(tmp_path)
    assert page.read_text() == "built\n"
    page.write_text("kept")
    build_missing_page(tmp_path)
    assert page.read_text() == "kept"


def test_a_page_that_npm_cannot_build_says_why(tmp_path: Path) -> None:
    _checkout(tmp_path, "echo no such module >&2; exit 3")
    with pytest.raises(PageNotBuiltError, match=r"npm run failed in web/.*\n.*no such module"):
        build_missing_page(tmp_path)


def test_without_npm_it_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _checkout(tmp_path, "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PageNotBuiltError, match=r"which builds it: install Node\.js 20\.19"):
        build_missing_page(tmp_path)
