"""Which tests have to do with a module: those that import it, or that import what does."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path


class ImportingTests:
    """The imports of all Python files under some places of a tree.

    Args:
        root: of the tree.
        code: folders below it with what is tested.
        tests: files or folders below it with the tests.
    """

    def __init__(self, root: Path, code: Sequence[str], tests: Sequence[str]) -> None:
        self._root = root
        files = [path for place in (*code, *tests) for path in _python_files(root / place)]
        self._imports = {path.relative_to(root): _imported(path) for path in files}

    def nearest(self, touched: Sequence[str]) -> Iterator[list[str]]:
        """The test files of the modules in these files: those that have their names, then the
        rest, nearest first.
        """
        names = {f"test_{Path(path).stem}.py" for path in touched}
        named = [path for path in self._imports if path.name in names]
        yield [str(path) for path in named]
        packages = {Path(path).parts[0] for path in touched}
        rest = [
            path
            for path in self._importing({self._module(Path(path)) for path in touched})
            if path not in named
        ]
        yield [str(path) for path in sorted(rest, key=lambda path: packages.isdisjoint(path.parts))]

    def _module(self, path: Path) -> str:
        """The name by which a file is imported: `evenflow` has links to the folders of code."""
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        is_linked = (self._root / "evenflow" / path.parts[0]).is_symlink()
        return f"evenflow.{name}" if is_linked else name

    def _importing(self, modules: set[str]) -> list[Path]:
        """The tests that import the modules; where none does, the tests of what does, and so on."""
        found: dict[Path, None] = {}
        while new := [
            path for path, names in self._imports.items() if path not in found and names & modules
        ]:
            found |= dict.fromkeys(new)
            if tests := [
                path for path in self._imports if _is_test(path) and _has_to_do_with(path, found)
            ]:
                return tests
            modules = {self._module(path) for path in new}
        return []


def _python_files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    for path in sorted(place.rglob("*.py")):
        if "node_modules" not in path.parts:
            yield path


def _imported(path: Path) -> set[str]:
    """The modules that a file imports; what it takes out of a package may be one."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_")


def _has_to_do_with(path: Path, found: dict[Path, None]) -> bool:
    return path in found or any(folder / "conftest.py" in found for folder in path.parents)
