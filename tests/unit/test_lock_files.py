"""Lock files say what is installed and not from where: each machine has its own registry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# In pieces, so that this file doesn't hold what it looks for.
REGISTRIES = (
    ".".join(("pypi", "org")),
    ".".join(("pypi", "python", "org")),
    ".".join(("pythonhosted", "org")),
    ".".join(("npmjs", "org")),
    ".".join(("npmjs", "com")),
    ".".join(("yarnpkg", "com")),
    ".".join(("npmmirror", "com")),
    ".".join(("crates", "io")),
)
NOT_OURS = {"node_modules", ".venv", ".build", ".git", "cdk.out"}
# Each of them is installed into an environment of its own.
ALONE = {
    *("clients.txt", "litellm.txt", "strands.txt", "engines.txt", "guidellm.txt"),
    "site.txt",
}


def lock_files() -> list[Path]:
    package_locks = [
        path
        for path in ROOT.rglob("package-lock.json")
        if not NOT_OURS & set(path.relative_to(ROOT).parts)
    ]
    return [*sorted((ROOT / "requirements").glob("*.txt")), *sorted(package_locks)]


@pytest.mark.parametrize("path", lock_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_lock_file_names_no_registry(path: Path) -> None:
    text = path.read_text("utf-8").lower()
    assert [host for host in REGISTRIES if host in text] == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: str(path.name)
)
def test_a_requirements_file_pins_and_hashes_and_sets_no_index(path: Path) -> None:
    lines = path.read_text("utf-8").replace("\\\n", " ").splitlines()
    wanted = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    assert wanted
    for line in wanted:
        assert re.match(r"[A-Za-z0-9_.\[\]-]+==\S+", line), line
        assert "--hash=sha256:" in line, line


def test_what_is_installed_together_agrees() -> None:
    """`make check` installs several of them into one environment: the last one must not undo the
    first.
    """
    versions: dict[str, dict[str, set[str]]] = {}
    together = (
        path for path in sorted((ROOT / "requirements").glob("*.txt")) if path.name not in ALONE
    )
    for path in together:
        for name, version in re.findall(
            r"^([A-Za-z0-9_.-]+)==([^ \\;]+)", path.read_text("utf-8"), re.MULTILINE
        ):
            versions.setdefault(name, {}).setdefault(path.name, set()).add(version)
    # Where the version depends on Python's, a lock that is made for a newer Python has only the
    # newer one.
    assert {
        name: found
        for name, found in versions.items()
        if any(one - other and other - one for one in found.values() for other in found.values())
    } == {}


def test_there_are_lock_files_for_what_runs_and_for_the_page() -> None:
    names = {str(path.relative_to(ROOT)) for path in lock_files()}
    assert {"requirements/runtime.txt", "requirements/dev.txt", "web/package-lock.json"} <= names
