"""What security.md and attacks.md say holds an attacker is there, and something shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from tests.attack.catalogue import ATTACKS

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
_PAGE = (DOCS / "security.md").read_text("utf-8")
_NAME = re.compile(r"`([A-Z][A-Z_]{4,})[`=]")
_DECISION = re.compile(r"\b(0\d{3})\b")
_SHOWN_BY = re.compile(r"`([^`]+)`")
_HEADS = ("tries", "attack")
_BEFORE = "## Before and after"


def test_each_bound_is_a_setting() -> None:
    named = set(_NAME.findall(_PAGE))
    assert len(named) > 20
    assert {name for name in named if name.lower() not in HandlerSettings.model_fields} == set()


def test_each_decision_is_there() -> None:
    there = {page.name[:4] for page in (DOCS / "decisions").glob("0*.md")}
    assert set(_DECISION.findall(_PAGE)) - there == set()


@pytest.mark.parametrize(
    ("section", "least"),
    [(_PAGE, 40), ((DOCS / "attacks.md").read_text("utf-8").partition(_BEFORE)[2], 25)],
    ids=["security", "attacks"],
)
def test_each_row_names_an_attack_or_a_test_that_is_there(section: str, least: int) -> None:
    lines = (line.strip("|").split(" | ") for line in section.splitlines() if line[:2] == "| ")
    rows = {first.strip(): last for first, *_, last in lines if first.strip() not in _HEADS}
    tests = {file.name for file in (ROOT / "tests").rglob("test_*.py")}
    tests |= {file.name for file in (ROOT / "web" / "test").rglob("*.test.ts")}
    shown = {what: _SHOWN_BY.findall(last) for what, last in rows.items()}
    assert len(rows) > least
    assert [what for what, names in shown.items() if not names] == []
    assert {name for names in shown.values() for name in names} - ATTACKS.keys() - tests == set()
