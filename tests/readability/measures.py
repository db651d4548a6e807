"""Measures the product's Python files: sizes, imports between folders, names and phrases."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("fargate_handler", "stream_core", "stream_aws", "stream_sqlite", "functions", "infra")
"""Folders at the top. `evenflow`, which has links to them, is measured by its own files."""
_GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")

BARE_NAMES = {
    "again", "already", "asked", "begun", "beside", "brought", "chosen", "come", "counted",
    "elsewhere", "ended", "found", "given", "gone", "held", "it", "kept", "known", "left",
    "made", "meant", "more", "named", "noted", "own", "others", "put", "said", "seen", "sent",
    "so_many", "standing", "stands", "still", "stood", "taken", "told", "wanted", "yet",
}  # fmt: skip
"""Names that say nothing of the thing: bare participles and adverbs."""

FORBIDDEN = {
    "people": re.compile(r"\b(who|whose|whom|nobody|everybody|somebody)\b", re.IGNORECASE),
    "so many": re.compile(r"\bso (many|much|long)\b(?! as\b)", re.IGNORECASE),
    "of which": re.compile(r"\b(of which|of those (that|which|who))\b", re.IGNORECASE),
}
"""Phrases that docstrings and comments should not have: words for people, and missing names."""

MANY_DEFINITIONS = 8


@dataclass(frozen=True)
class SourceFile:
    """A file of the product."""

    path: str
    text: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        """The folder in which it is."""
        return self.path.rpartition("/")[0]


def source_files(root: Path) -> list[SourceFile]:
    """The product's Python files below `root`, without generated ones."""
    paths = [path for package in PACKAGES for path in (root / package).rglob("*.py")]
    paths += [*(root / "evenflow").glob("*.py"), *(root / "evenflow/doctor").glob("*.py")]
    files = []
    for path in sorted(paths):
        name = str(path.relative_to(root))
        if {"node_modules", "cdk.out"} & set(path.parts) or _GENERATED.search(name):
            continue
        files.append(parsed(name, path.read_text("utf-8")))
    return files


def parsed(path: str, text: str) -> SourceFile:
    """A file with this text."""
    return SourceFile(path, text, ast.parse(text))


def quantile(values: list[int], share: float) -> int:
    """The value below which `share` of the values lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def function_lengths(files: list[SourceFile]) -> list[int]:
    """The lines of each function, its docstring included."""
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for file in files
        for node in ast.walk(file.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def imported_files(files: list[SourceFile]) -> dict[str, set[str]]:
    """The product's files that each file imports, by path."""
    by_module = {
        "evenflow." + file.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): (
            file.path
        )
        for file in files
    }
    imports = defaultdict[str, set[str]](set)
    for file in files:
        for name in imported(file.tree, "evenflow." + file.folder.replace("/", ".")):
            target = by_module.get(name) or by_module.get(name.rpartition(".")[0])
            if target is not None and target != file.path:
                imports[file.path].add(target)
    return imports


def imported(tree: ast.AST, package: str) -> Iterator[str]:
    """The modules that a file of a package imports, `from x import y` as `x.y` and relative ones
    made absolute.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def folder_circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of folders within a package that import each other, directly or not."""
    leads_to = defaultdict[str, set[str]](set)
    for path, targets in imports.items():
        for target in targets:
            source, other = path.rpartition("/")[0], target.rpartition("/")[0]
            if source != other and source.partition("/")[0] == other.partition("/")[0]:
                leads_to[source].add(other)
    reached = {folder: _reachable(folder, leads_to) for folder in list(leads_to)}
    circles = {
        frozenset(other for other in found if folder in reached.get(other, set()))
        for folder, found in reached.items()
        if folder in found
    }
    return sorted(sorted(circle) for circle in circles)


def _reachable(start: str, leads_to: dict[str, set[str]]) -> set[str]:
    found, waiting = set[str](), list(leads_to.get(start, ()))
    while waiting:
        folder = waiting.pop()
        if folder not in found:
            found.add(folder)
            waiting += leads_to.get(folder, ())
    return found


def class_places(files: list[SourceFile]) -> dict[str, list[str]]:
    """The files that define a class of each name."""
    places = defaultdict[str, list[str]](list)
    for file in files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(file.path)
    return places


def duplicate_classes(files: list[SourceFile]) -> dict[str, list[str]]:
    """Class names that stand more than once, a leading underscore aside."""
    places = defaultdict[str, list[str]](list)
    for name, paths in class_places(files).items():
        places[name.lstrip("_")] += paths
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


def bare_names(files: list[SourceFile]) -> Counter[str]:
    """How often each file defines a parameter, variable or attribute with a bare name."""
    return Counter(
        file.path for file in files for name in _defined_names(file.tree) if _is_bare(name)
    )


def _is_bare(name: str) -> bool:
    return name.strip("_") in BARE_NAMES


def _defined_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def forbidden_phrases(files: list[SourceFile]) -> dict[str, Counter[str]]:
    """How often the docstrings and comments of each file have each forbidden phrase."""
    found = {phrase: Counter[str]() for phrase in FORBIDDEN}
    for file in files:
        text = "\n".join([*_docstrings(file.tree), *_comments(file.text)])
        for phrase, pattern in FORBIDDEN.items():
            if count := len(pattern.findall(text)):
                found[phrase][file.path] = count
    return found


def _docstrings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        # Also those below constants and attributes, which `ast.get_docstring` does not know.
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield text


def _comments(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def repeated_methods(files: list[SourceFile]) -> dict[str, int]:
    """Public methods of one word that more than `MANY_DEFINITIONS` classes define."""
    counts = Counter(
        method.name
        for file in files
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and "_" not in method.name
    )
    return {name: count for name, count in counts.most_common() if count > MANY_DEFINITIONS}


def largest_shared_class(files: list[SourceFile]) -> tuple[str, int, int]:
    """The class with the highest product of fields and importing files: name, fields, importers.

    Fields are annotated in its body, or assigned to `self` in its methods.
    """
    importers = Counter(
        alias.name
        for file in files
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )
    sizes = {
        node.name: len(_fields(node))
        for file in files
        for node in ast.walk(file.tree)
        # Settings are fields by their nature.
        if isinstance(node, ast.ClassDef) and not node.name.endswith(("Settings", "Limits"))
    }
    name = max(sizes, key=lambda each: (sizes[each] * importers[each], each))
    return name, sizes[name], importers[name]


def _fields(node: ast.ClassDef) -> set[str]:
    fields = {
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                fields.add(name)
    return fields


def single_importer_files(imports: dict[str, set[str]]) -> int:
    """How many files are imported by one file only, which is in the same folder."""
    importers = defaultdict[str, set[str]](set)
    for path, targets in imports.items():
        for target in targets:
            importers[target].add(path)
    return sum(
        len(paths) == 1 and next(iter(paths)).rpartition("/")[0] == target.rpartition("/")[0]
        for target, paths in importers.items()
    )
