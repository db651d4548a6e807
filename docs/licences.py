"""The licences of all that Evenflow is built of, as the packages state them, and which of them
are welcome.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from docs.markdown import paragraph

_ROOT = Path(__file__).resolve().parent.parent
WELCOME = frozenset(
    {
        "0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BlueOak-1.0.0", "CC0-1.0",
        "CNRI-Python", "ISC", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Zlib",
    }
)  # fmt: skip
"""They let anybody use what they cover, as it is, in anything.

BSD: a package that doesn't say which.
"""

_SHIPPED_LOCKS, _OTHER_LOCKS = ("runtime", "aws", "functions"), ("dev", "bench", "infra")
# What packages write where the standard's short name belongs.
_ALSO_CALLED = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "MIT License": "MIT",
    "MIT license": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "PSFL": "PSF-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The MIT License": "MIT",
}
_JOINED = re.compile(r"\s+(?:AND|OR)\s+|[()]+")
_LOCKED = re.compile(r"^([A-Za-z0-9_.-]+)==[^ ]+( ;)?", re.MULTILINE)
# A name of a package, and behind a slash that of a module in it.
_IMPORTED = re.compile(
    r"""^import [^;]*?from "([^".@/][^"/]*|@[^"/]+/[^"/]+)[^"]*";$""", re.MULTILINE
)


class LicenceError(Exception):
    """A package says no licence, or one that is not welcome. The message names both."""


def licences_page(note: str) -> str:
    """Each licence with the packages that are under it.

    Raises:
        LicenceError: one is not welcome, or not known.
    """
    shipped = {**python_licences(_SHIPPED_LOCKS), **_bundled_licences()}
    others = {**python_licences(_OTHER_LOCKS), **npm_licences(is_optional=False)}
    check({**shipped, **others, **npm_licences(is_optional=True)})
    tools = {name: licence for name, licence in others.items() if name not in shipped}
    return "\n".join(
        [
            note,
            "# Licences",
            "",
            *paragraph(
                "Evenflow is under the [Apache License 2.0](../LICENSE). The packages that it uses "
                "are under these, as their own metadata say. A package with any other licence "
                "fails `make docs-check`."
            ),
            "",
            "## In what is deployed",
            "",
            "The handler's image, the functions and the page.",
            "",
            *_table(shipped),
            "",
            "## To build, deploy and test",
            "",
            *paragraph(
                "Foreign clients and engines that tests run beside Evenflow, each in an "
                "environment of its own, are not listed."
            ),
            "",
            *_table(tools),
            "",
        ]
    )


def check(licences: dict[str, str]) -> None:
    """Look at each package's licence.

    Raises:
        LicenceError: one is not welcome.
    """
    for name, licence in licences.items():
        if not set(filter(None, _JOINED.split(licence))) <= WELCOME:
            raise LicenceError(
                f"{name} is under {licence!r}, which docs/licences.py does not welcome: read it, "
                "and add it there or take the package out"
            )


def stated_licence(package: Distribution) -> str:
    """The licence that an installed package states: in its metadata, else in the first line of its
    licence file.

    Raises:
        LicenceError: it states none.
    """
    if expression := _stated(package, "License-Expression"):
        return expression[0]
    classifiers = [
        it.rsplit(" :: ", 1)[1]
        for it in _stated(package, "Classifier")
        if it.startswith("License ::")
    ]
    found = [*_stated(package, "License"), *classifiers, *_first_lines(package)]
    names = [_ALSO_CALLED.get(stated.strip(), stated.strip().split("\n", 1)[0]) for stated in found]
    if not names:
        raise LicenceError(
            f"{package.name} states no licence: read it, and say in docs/licences.py what it is"
        )
    return next((name for name in names if name in WELCOME), names[0])


def _stated(package: Distribution, field: str) -> list[str]:
    return package.metadata.get_all(field) or []


def python_licences(locks: Iterable[str]) -> dict[str, str]:
    """Of the packages in these lock files; those that are for other machines are passed over."""
    found = {}
    for lock in locks:
        text = (_ROOT / "requirements" / f"{lock}.txt").read_text("utf-8")
        for name, is_conditional in _LOCKED.findall(text):
            try:
                found[name] = stated_licence(distribution(name))
            except PackageNotFoundError:
                if not is_conditional:
                    raise
    return found


def _first_lines(package: Distribution) -> Iterator[str]:
    for name in _stated(package, "License-File"):
        text = package.read_text(f"licenses/{name}") or package.read_text(name) or ""
        yield from text.strip().splitlines()[:1]


def _npm_packages(folder: str) -> dict[str, Any]:
    lock = json.loads((_ROOT / folder / "package-lock.json").read_text("utf-8"))
    return {
        path.rsplit("node_modules/", 1)[1]: package
        for path, package in lock["packages"].items()
        if path
    }


def npm_licences(*, is_optional: bool) -> dict[str, str]:
    """Of the packages in the lock files of npm.

    Optional ones are others' builds for one kind of machine.
    """
    packages = _npm_packages("web") | _npm_packages("infra")
    return {
        name: package.get("license", "no licence")
        for name, package in packages.items()
        if package.get("optional", False) == is_optional
    }


def _bundled_licences() -> dict[str, str]:
    """Of what the page's own code imports, and what that needs."""
    packages = _npm_packages("web")
    modules = (_ROOT / "web" / "src").rglob("*.ts")
    # Declarations of types are in no bundle.
    sources = (path.read_text("utf-8") for path in modules if not path.name.endswith(".d.ts"))
    wanted = sorted({name for source in sources for name in _IMPORTED.findall(source)})
    found = {}
    while wanted:
        name = wanted.pop()
        found[name] = packages[name]["license"]
        wanted += [it for it in packages[name].get("dependencies", ()) if it not in found]
    return found


def _table(licences: dict[str, str]) -> Iterator[str]:
    by_licence = defaultdict(list)
    for name, licence in licences.items():
        by_licence[licence].append(name)
    yield from ("| licence | packages |", "|---|---|")
    yield from (
        f"| {licence} | {', '.join(sorted(by_licence[licence]))} |"
        for licence in sorted(by_licence)
    )
