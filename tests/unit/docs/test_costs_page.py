"""Figures that other pages take from the page of costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import generate
from docs.costs import stale_figures

_PAGE = "| a month at rest | 51.08 | 1,216.69 |"


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        ("`dev` costs 51.08 dollars a month", []),
        ("1,216.69 dollars, and 51.08 dollars", []),
        ("it costs 102.55 dollars, prod 302.14 dollars", ["102.55", "302.14"]),
        ("51.0 dollars", ["51.0"]),
        ("three dollars", []),
    ],
)
def test_a_figure_in_dollars_stands_on_the_page(text: str, stale: list[str]) -> None:
    assert stale_figures(text, _PAGE) == stale


def test_readme_with_other_costs_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(generate, "_FOLDER", tmp_path / "docs")
    monkeypatch.setattr(generate, "PAGES", {"costs.md": lambda: _PAGE})
    (tmp_path / "README.md").write_text("At rest it costs 51.08 dollars a month.")
    assert generate.main([]) == generate.main(["--check"]) == 0
    (tmp_path / "README.md").write_text("At rest it costs 102.55 dollars a month.")
    assert generate.main(["--check"]) == 1
    assert "README.md: 102.55 dollars" in capsys.readouterr().err
