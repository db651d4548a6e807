"""A fault as a patch: one sentence that says what it breaks for a user, and the diff that makes
it.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

FOLDER = Path(__file__).resolve().parent
_TOUCHED = re.compile(r"^\+\+\+ b/(\S+)$", re.MULTILINE)


class DoesNotApply(Exception):
    """The code that the patch changes has changed; the patch must be made anew."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fault. `breaks` is what a user notices, `touched` the files that the diff changes."""

    path: Path
    breaks: str
    touched: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The fault that a patch describes."""
        text = path.read_text()
        sentence, _, diff = text.partition("\n\n")
        return cls(path, " ".join(sentence.split()), tuple(_TOUCHED.findall(diff)))

    @property
    def name(self) -> str:
        """The patch's name without its ending."""
        return self.path.stem

    def apply(self, tree: Path, *, only_check: bool = False) -> None:
        """Make the fault in `tree`, or see whether that can be done.

        Raises:
            DoesNotApply: it can't.
        """
        command = ["git", "apply", *(["--check"] if only_check else []), str(self.path)]
        # A copy of the tree is no repository, and must not be taken for a part of one that it lies
        # in.
        environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)}
        applied = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False
        )
        if applied.returncode:
            raise DoesNotApply(
                f"{self.name} does not apply; make the patch anew:\n{applied.stderr.strip()}"
            )


def all_mutations() -> list[Mutation]:
    """All faults, in the order of their numbers."""
    paths = sorted(FOLDER.glob("*.patch"), key=lambda path: int(path.name.partition("-")[0]))
    return [Mutation.read(path) for path in paths]
