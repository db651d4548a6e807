"""Prose in the pages that code writes."""

from __future__ import annotations

from textwrap import wrap

_WIDTH = 100


def paragraph(text: str, indent: str = "") -> list[str]:
    """The lines of a paragraph, those behind the first indented."""
    return wrap(
        text,
        _WIDTH,
        subsequent_indent=indent,
        # Addresses and names stay whole.
        break_long_words=False,
        break_on_hyphens=False,
    )


def item(text: str) -> list[str]:
    """The lines of a list's item."""
    return paragraph(f"- {text}", indent="  ")
