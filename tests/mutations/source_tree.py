"""Python files of a tree, and where a piece of code stands in what they define."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

_DEFINED = re.compile(r"\b(?:def|class) (\w+)")
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Definition:
    """A module, class or function, by its dotted name, in a file with this source."""

    name: str
    path: Path
    node: ast.AST
    source: bytes


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes of a file in which a piece of code stands, indented by so many columns."""

    path: Path
    start: int
    end: int
    indent: int
    is_expression: bool


class SourceTree:
    """The Python files in some folders of a tree.

    Args:
        root: of the tree.
        folders: below it.
    """

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        self.root = root
        self._sources = {
            path.relative_to(root): path.read_bytes()
            for folder in folders
            for path in sorted((root / folder).rglob("*.py"))
            if "node_modules" not in path.parts
        }
        self._defining: dict[str, dict[Path, None]] = {}
        for path, source in self._sources.items():
            for name in (path.stem, path.parent.name, *_DEFINED.findall(source.decode())):
                self._defining.setdefault(name, {})[path] = None
        self._parsed: dict[Path, list[Definition]] = {}

    def source(self, path: Path) -> bytes:
        """What stands in a file."""
        return self._sources[path]

    def definitions(self, name: str) -> list[Definition]:
        """All whose dotted name is this or ends in it."""
        return [
            definition
            for path in self._defining.get(name.rpartition(".")[2], ())
            for definition in self._definitions(path)
            if f".{definition.name}".endswith(f".{name}")
        ]

    def files(self, name: str) -> list[Path]:
        """Those that define a function, named alone or behind the end of its module's name."""
        module, _, function = name.rpartition(".")
        return [
            path
            for path in self._defining.get(function, ())
            if f".{_module(path)}".endswith(f".{module}" if module else "")
        ]

    def names_of(self, pattern: Sequence[ast.stmt]) -> list[str]:
        """The dotted names of the innermost definitions in which a piece of code stands."""
        found: dict[tuple[Path, int], str] = {}
        for path in self._sources:
            for definition in self._definitions(path):  # the outer ones come first
                for span in spans_of(definition, pattern):
                    found[path, span.start] = definition.name
        return list(found.values())

    def _definitions(self, path: Path) -> list[Definition]:
        if path not in self._parsed:
            source = self._sources[path]
            top = Definition(_module(path), path, ast.parse(source, str(path)), source)
            self._parsed[path] = [top, *_within(top)]
        return self._parsed[path]


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _within(outer: Definition) -> Iterator[Definition]:
    for node in ast.iter_child_nodes(outer.node):
        if isinstance(node, _DEFINITIONS):
            inner = replace(outer, name=f"{outer.name}.{node.name}", node=node)
            yield inner
            yield from _within(inner)
        elif not isinstance(node, ast.expr):
            yield from _within(replace(outer, node=node))


def spans_of(definition: Definition, pattern: Sequence[ast.stmt]) -> list[Span]:
    """Where an expression or statements stand in a definition."""
    only = pattern[0]
    if len(pattern) == 1 and isinstance(only, ast.Expr):
        wanted = ast.dump(only.value)
        return [
            _span(definition, [node], is_expression=True)
            for node in _walk(definition.node)
            if type(node) is type(only.value) and ast.dump(node) == wanted
        ]
    dumps = [ast.dump(statement) for statement in pattern]
    return [
        _span(definition, block[at : at + len(dumps)], is_expression=False)
        for block in _blocks(definition.node)
        for at in range(len(block) - len(dumps) + 1)
        if type(block[at]) is type(only)
        and [ast.dump(statement) for statement in block[at : at + len(dumps)]] == dumps
    ]


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """All below it but what stands within a string, whose place Python 3.11 doesn't know."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.JoinedStr):
            yield from _walk(child)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for inner in (node, *_walk(node)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(inner, name, None)
            if isinstance(block, list):
                yield block


def _span(definition: Definition, nodes: Sequence[ast.AST], *, is_expression: bool) -> Span:
    starts = _line_starts(definition.source)
    first, last = nodes[0], nodes[-1]
    assert isinstance(first, ast.expr | ast.stmt)
    assert isinstance(last, ast.expr | ast.stmt)
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    return Span(
        definition.path,
        starts[first.lineno - 1] + first.col_offset,
        starts[last.end_lineno - 1] + last.end_col_offset,
        first.col_offset,
        is_expression,
    )


@cache
def _line_starts(source: bytes) -> list[int]:
    return [0, *(match.end() for match in re.finditer(rb"\n", source))]
