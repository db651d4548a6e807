"""What a wheel and an sdist hold: one package, `evenflow`, and the files that it serves or deploys.

In a checkout `evenflow/` has a link to each folder of code at the top, so `evenflow.infra` is the
same module here and in a wheel. Files that are no code have the same place beside that code:
`web/dist/` of a checkout is `evenflow/web/dist/` of a wheel.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

_TOP = Path(__file__).resolve().parent
sys.path.insert(0, str(_TOP))  # pip builds without it
from evenflow.infra.assets.page_build import PageNotBuiltError, build_missing_page  # noqa: E402

# MANIFEST.in has them for the sdist.
_FILES = ("docs/*.md", "docs/runbooks/*.md", "requirements/functions.txt", "web/dist/**/*")


class BuildPackage(build_py):
    """Builds the package. Without npm it has no page, and its server says so."""

    def run(self) -> None:
        """Build into `build_lib`, or for an editable install the page alone."""
        try:
            build_missing_page(_TOP)
        except PageNotBuiltError as error:
            self.warn(f"this installation has no page. {error}")
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib, "evenflow")
        for folder in {pattern.split("/")[0] for pattern in _FILES}:
            shutil.rmtree(package / folder, ignore_errors=True)  # an earlier build's
        for file in (found for pattern in _FILES for found in _TOP.glob(pattern)):
            if file.is_file():
                copy = package / file.relative_to(_TOP)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


class BuildSources(sdist):
    """Builds the sdist, always with the page: installing it needs no npm."""

    def run(self) -> None:
        """Build it.

        Raises:
            PageNotBuiltError: npm is missing, or it failed.
        """
        build_missing_page(_TOP)
        super().run()


setup(
    packages=find_packages(include=["evenflow", "evenflow.*"]),
    package_data={
        "evenflow.infra.constructs.edge": ["viewer_host.js"],
        "evenflow.infra.updates": ["immutable_properties.json"],
    },
    include_package_data=False,
    cmdclass={"build_py": BuildPackage, "sdist": BuildSources},
)
