"""`python -m tests.readability [ROOT]`: how the product reads, as a table; `--files` says where."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.readability import measures

ROOT = Path(__file__).resolve().parents[2]
_TERM = re.compile(r"^- \*\*", re.MULTILINE)
_SETTING = re.compile(r"^\| `EVENFLOW_\w+`", re.MULTILINE)
_WORST = 12


def main(arguments: Sequence[str]) -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.readability", description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="another tree")
    parser.add_argument("--files", action="store_true", help="the files with the most findings")
    options = parser.parse_args(arguments)
    files = measures.source_files(options.root.resolve())
    for name, value in rows(options.root, files):
        print(f"{name:52} {value}")
    if options.files:
        for name, counts in (
            ("bare names", measures.bare_names(files)),
            ("phrases", _phrases(files)),
        ):
            print(f"\n{name}:")
            for path, count in counts.most_common(_WORST):
                print(f"{count:6d}  {path}")
        print("\nclass names that stand more than once:")
        for name, places in measures.duplicate_classes(files).items():
            print(f"  {name}: {', '.join(places)}")
    return 0


def rows(root: Path, files: list[measures.SourceFile]) -> Iterator[tuple[str, str]]:
    """The names and values of the table."""
    lengths = [file.text.count("\n") for file in files]
    functions = measures.function_lengths(files)
    imports = measures.imported_files(files)
    circles = measures.folder_circles(imports)
    yield "files", str(len(files))
    yield "lines", str(sum(lengths))
    yield "lines of a file, median and p95", _quantiles(lengths)
    yield "lines of a function, median, p95 and most", f"{_quantiles(functions)}, {max(functions)}"
    yield (
        "files with one importer, in the same folder",
        str(measures.single_importer_files(imports)),
    )
    yield "circles between folders", f"{len(circles)}, of {sum(map(len, circles))} folders"
    yield "class names that stand more than once", str(len(measures.duplicate_classes(files)))
    yield "bare names", str(measures.bare_names(files).total())
    for phrase, counts in measures.forbidden_phrases(files).items():
        yield f'forbidden phrases, "{phrase}"', str(counts.total())
    methods = measures.repeated_methods(files)
    listed = ", ".join(f"{name} {count}" for name, count in list(methods.items())[:6])
    yield (
        f"methods of one word in over {measures.MANY_DEFINITIONS} classes",
        f"{len(methods)} ({listed})",
    )
    name, fields, importers = measures.largest_shared_class(files)
    yield "largest shared class", f"{name}: {fields} fields, {importers} importers"
    yield "terms of the glossary", str(len(_TERM.findall(_page(root, "glossary.md"))))
    yield "settings", str(len(set(_SETTING.findall(_page(root, "limits.md")))))


def _phrases(files: list[measures.SourceFile]) -> Counter[str]:
    return sum(measures.forbidden_phrases(files).values(), Counter[str]())


def _page(root: Path, name: str) -> str:
    paths = [path for path in (root / "docs").rglob(name) if "node_modules" not in path.parts]
    return paths[0].read_text("utf-8") if paths else ""


def _quantiles(values: list[int]) -> str:
    return f"{measures.quantile(values, 0.5)}, {measures.quantile(values, 0.95)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
