"""Evenflow: a resumable streaming server between language models and their readers."""

from __future__ import annotations

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import PathEntryFinder

__version__ = "0.1.0"

if os.environ.get("EVENFLOW_COMPILED") == "0":
    # A compiled module comes before its source, so they are not looked for.
    _PACKAGE = Path(__file__).parent
    _sources = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))

    def _only_sources(path: str) -> PathEntryFinder:
        if not Path(path).is_relative_to(_PACKAGE):
            raise ImportError(path)
        return _sources(path)

    sys.path_hooks.insert(0, _only_sources)


def is_compiled() -> bool:
    """Whether the hot modules run compiled."""
    return "evenflow__mypyc" in sys.modules
