"""docs/architecture.md names the folders that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[3]
_PAGE = (_ROOT / "docs" / "architecture.md").read_text("utf-8")
_TOP = ("stream_core", "fargate_handler", "infra", "functions", "web", "stream_aws")


def _named_folders() -> set[str]:
    return set(re.findall(r"`([\w./-]+)/`", _PAGE))


def _folders_of(package: str) -> set[str]:
    return {path.parent.name for path in (_ROOT / package).glob("*/__init__.py")}


def test_each_folder_that_it_names_exists() -> None:
    bases = ("", *_TOP, "tests")
    missing = [
        name
        for name in _named_folders()
        if not any((_ROOT / base / name).is_dir() for base in bases)
    ]
    assert missing == []


@pytest.mark.parametrize("package", ["stream_core", "fargate_handler", "fargate_handler/gateway"])
def test_each_folder_of_the_packages_is_named(package: str) -> None:
    named = {part for name in _named_folders() for part in name.split("/")}
    protocols = set(re.findall(r"`(\w+)`", _PAGE))
    assert _folders_of(package) - named - protocols == set()
