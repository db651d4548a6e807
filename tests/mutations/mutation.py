"""A fault as edits of the code, each found by the name of what it changes."""

from __future__ import annotations

import ast
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.mutations.source_tree import SourceTree, Span, spans_of

FOLDER = Path(__file__).resolve().parent


class DoesNotApply(Exception):
    """The code that an edit changes has changed; the edit must be corrected."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of the code.

    Args:
        place: the end of a dotted name: `module`, `module.function`, `Class` or `Class.method`.
        old: an expression or statements that stand there once, compared as syntax trees.
        new: what takes their place.
    """

    place: str
    old: str
    new: str

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Self:
        """An edit as the file of faults has it."""
        return cls(table["in"], table["replace"].strip("\n"), table["with"].strip("\n"))

    def find(self, tree: SourceTree) -> Span:
        """Where it changes the code.

        Raises:
            DoesNotApply: the code is not there, or more than once; says where it now stands.
        """
        pattern = ast.parse(textwrap.dedent(self.old)).body
        places = tree.definitions(self.place)
        spans = [span for place in places for span in spans_of(place, pattern)]
        if len(spans) == 1:
            return spans[0]
        where = f"`in = {self.place!r}`"
        if spans:
            raise DoesNotApply(f"{where} has this code {len(spans)} times:\n{self.old}")
        known = ", ".join(f"`in = {name!r}`" for name in tree.names_of(pattern)) or "nowhere"
        what = "does not have this code" if places else "names nothing"
        raise DoesNotApply(f"{where} {what}; it stands in {known}:\n{self.old}")

    def replacement(self, span: Span) -> str:
        """The new code as it stands in the place of the old."""
        new = textwrap.dedent(self.new)
        if len(body := ast.parse(new).body) == 1 and isinstance(body[0], ast.Expr):
            return f"({new})" if span.is_expression else new
        return textwrap.indent(new, " " * span.indent).lstrip(" ")


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fault.

    Args:
        name: a number, the topic, and what is wrong.
        breaks: a sentence that says what a user notices.
        test: the dotted name of the test that finds it; of several, the lowest.
        edits: make the fault.
    """

    name: str
    breaks: str
    test: str
    edits: tuple[Edit, ...]

    @classmethod
    def read(cls, name: str, table: Mapping[str, Any]) -> Self:
        """A fault as the file of faults has it: one edit beside the rest, or a list of them."""
        edits = tuple(Edit.read(edit) for edit in table.get("edits", [table]))
        return cls(name, " ".join(table["breaks"].split()), table["test"], edits)

    def changes(self, tree: SourceTree) -> dict[Path, str]:
        """The files that it changes, by their paths in the tree, with their new text.

        Raises:
            DoesNotApply: an edit can't be made.
        """
        try:
            found = [(edit.find(tree), edit) for edit in self.edits]
        except DoesNotApply as error:
            raise DoesNotApply(f"{self.name}: {error}") from None
        changed: dict[Path, bytes] = {}
        for span, edit in sorted(found, key=lambda pair: pair[0].start, reverse=True):
            source = changed.get(span.path, tree.source(span.path))
            new = edit.replacement(span).encode()
            changed[span.path] = source[: span.start] + new + source[span.end :]
        texts = {path: source.decode() for path, source in changed.items()}
        for path, text in texts.items():
            ast.parse(text, str(path))
        return texts

    def apply(self, tree: SourceTree) -> Sequence[str]:
        """Make the fault in the tree; returns the paths of the files that it changes there.

        Raises:
            DoesNotApply: an edit can't be made.
        """
        changes = self.changes(tree)
        for path, text in changes.items():
            (tree.root / path).write_text(text)
        return [str(path) for path in changes]


def all_mutations() -> list[Mutation]:
    """All faults, in the order of their numbers."""
    tables = [tomllib.loads(path.read_text()) for path in sorted(FOLDER.glob("*.toml"))]
    faults = [Mutation.read(name, table) for file in tables for name, table in file.items()]
    return sorted(faults, key=lambda fault: int(fault.name.partition("-")[0]))
