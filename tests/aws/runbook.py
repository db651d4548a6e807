"""The commands of a runbook, run in a shell as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

from tests.integration.server_process import ROOT, clean_environment

FOLDER = ROOT / "docs" / "runbooks"
_BLOCK = re.compile(r"^( *)```sh\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    """The blocks of shell commands of a page, those in lists included."""
    return [textwrap.dedent(code) for _, code in _BLOCK.findall(page.read_text("utf-8"))]


def block_with(page: str, part: str) -> str:
    """The one block of a page that has this part."""
    (found,) = (code for code in blocks(FOLDER / page) if part in code)
    return found


class Shell:
    """Runs commands against an emulator. `aws` is `tests.aws.aws_command_line`.

    Args:
        folder: for `aws`, and for what the commands write.
        replaced: texts of the page, and what stands in their place here.
    """

    def __init__(
        self, folder: Path, variables: Mapping[str, str], replaced: Mapping[str, str]
    ) -> None:
        programs = folder / "bin"
        programs.mkdir()
        aws = programs / "aws"
        aws.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.aws.aws_command_line "$@"\n')
        aws.chmod(0o755)
        self._environment = clean_environment(
            {**variables, "CDK_HOME": str(folder / "cdk.home"), "PYTHONPATH": str(ROOT)}
        )
        self._environment["PATH"] = f"{programs}:{self._environment['PATH']}"
        self._replaced = {".venv/bin/python": sys.executable, **replaced}

    def run(self, code: str, **variables: str) -> str:
        """Run a block; every command of it must succeed. Returns what it prints."""
        for text, instead in self._replaced.items():
            code = code.replace(text, instead)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=ROOT,
            env=self._environment | variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout
