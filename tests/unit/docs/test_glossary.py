"""The glossary has only words that are really ours."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "glossary.md"
_MOST_TERMS = 40


def test_it_has_at_most_forty_terms_each_once() -> None:
    terms = re.findall(r"\*\*([^*]+)\*\*", _PAGE.read_text("utf-8"))
    assert 0 < len(terms) <= _MOST_TERMS
    assert len(set(terms)) == len(terms)
