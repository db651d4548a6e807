"""Every package that is used says its licence, and it is one that lets anybody use it."""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from docs.licences import (
    LicenceError,
    check,
    licences_page,
    npm_licences,
    python_licences,
    stated_licence,
)

ROOT = Path(__file__).resolve().parents[3]


def _package(folder: Path, metadata: str, licence_file: str = "") -> Distribution:
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: a-package\nVersion: 1\n{metadata}"
    )
    (folder / "licenses").mkdir()
    (folder / "licenses" / "LICENSE").write_text(licence_file)
    return PathDistribution(folder)


def test_the_page_lists_every_locked_package() -> None:
    page = licences_page("")
    names = python_licences(
        ["runtime", "aws", "functions", "infra", "bench", "dev"]
    ) | npm_licences(is_optional=False)
    assert len(names) > 200
    assert [name for name in names if f" {name}" not in page] == []


def test_what_the_page_bundles_is_listed_as_deployed() -> None:
    deployed = licences_page("").split("## To build")[0]
    assert "dompurify" in deployed
    assert "markdown-it" in deployed
    assert "highlight.js" in deployed, "of which only a module is imported"
    assert "esbuild" not in deployed


@pytest.mark.parametrize(
    ("metadata", "licence_file", "licence"),
    [
        ("License-Expression: Apache-2.0 OR MIT\n", "", "Apache-2.0 OR MIT"),
        ("License: Apache 2.0\n", "", "Apache-2.0"),
        (
            "License: Copyright (c) 2015\nClassifier: License :: OSI Approved :: BSD License\n",
            "",
            "BSD",
        ),
        ("License-File: LICENSE\n", "MIT License\n\nCopyright", "MIT"),
        (
            "Classifier: License :: OSI Approved :: GNU General Public License v3\n",
            "",
            "GNU General Public License v3",
        ),
    ],
)
def test_a_package_states_its_licence(
    tmp_path: Path, metadata: str, licence_file: str, licence: str
) -> None:
    assert stated_licence(_package(tmp_path, metadata, licence_file)) == licence


def test_a_package_without_a_licence_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LicenceError, match="a-package states no licence"):
        stated_licence(_package(tmp_path, ""))


@pytest.mark.parametrize(
    "licence",
    ["GPL-3.0-only", "MIT AND AGPL-3.0-only", "GNU General Public License v3", "no licence"],
)
def test_a_licence_that_is_not_welcome_is_an_error(licence: str) -> None:
    with pytest.raises(LicenceError, match="a-package is under"):
        check({"a-package": licence})


def test_alternatives_and_parts_are_welcome_where_each_is() -> None:
    check({"a": "MPL-2.0 AND (Apache-2.0 OR MIT)", "b": "(MPL-2.0 OR Apache-2.0)"})


def test_every_package_of_ours_names_the_licence_in_the_root() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License\n" in text
    assert "Version 2.0, January 2004" in text
    assert (
        tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["license"]
        == "Apache-2.0"
    )
    for folder in ("web", "infra"):
        package = json.loads((ROOT / folder / "package.json").read_text("utf-8"))
        assert package["license"] == "Apache-2.0"
    assert (ROOT / "web" / "LICENSE").read_text(
        "utf-8"
    ) == text  # `npm pack` takes it into the package
