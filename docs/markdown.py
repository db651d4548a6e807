"""Prose in the pages that code writes."""

from __future__ import annotations

from textwrap import wrap

_WIDTH = 100


def paragraph(text: str) -> list[str]:
    """The lines of a paragraph."""
    return wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def item(text: str) -> list[str]:
    """The lines of a list's item."""
    return wrap(
        f"- {text}",
        _WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
