"""A fresh clone of this checkout, as tests install it: without anything that was built."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_SOURCES = ("evenflow", "fargate_handler", "functions", "infra", "stream_aws", "stream_core",
            "stream_sqlite", "docs", "requirements", "web", "setup.py", "pyproject.toml",
            "MANIFEST.in", "README.md", "LICENSE")  # fmt: skip


def clone_sources(folder: Path) -> Path:
    """Copy what git would clone of the package and its files, uncommitted changes included."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_SOURCES],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        if not (ROOT / name).exists():
            continue  # deleted, and not committed
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy, follow_symlinks=False)
    return folder
