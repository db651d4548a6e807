"""What docs/security.md says holds an attacker is there, under that name."""

from __future__ import annotations

import re
from pathlib import Path

from evenflow.fargate_handler.settings import HandlerSettings

DOCS = Path(__file__).resolve().parents[3] / "docs"
_PAGE = (DOCS / "security.md").read_text("utf-8")
_NAME = re.compile(r"`([A-Z][A-Z_]{4,})[`=]")
_DECISION = re.compile(r"\b(0\d{3})\b")


def test_each_bound_is_a_setting() -> None:
    named = set(_NAME.findall(_PAGE))
    assert len(named) > 20
    assert {name for name in named if name.lower() not in HandlerSettings.model_fields} == set()


def test_each_decision_is_there() -> None:
    there = {page.name[:4] for page in (DOCS / "decisions").glob("0*.md")}
    assert set(_DECISION.findall(_PAGE)) - there == set()
