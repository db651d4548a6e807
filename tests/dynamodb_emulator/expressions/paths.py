"""Document paths, `starts.#epoch` or `list[2].name`: what they lead to, and which get in each other's way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.dynamodb_emulator.attribute_values import Item, Value

Tree = dict[str | int, Any]
"""Paths by their parts: part → the tree of what follows, None at a path's end."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path: names, and indexes into lists."""

    parts: tuple[str | int, ...]

    def __str__(self) -> str:
        return "[" + ", ".join(f"[{part}]" if isinstance(part, int) else part for part in self.parts) + "]"

    @property
    def attribute(self) -> str:
        """The item's attribute that it begins with."""
        return str(self.parts[0])

    def value(self, item: Item, _values: Item) -> Value | None:
        """What it leads to, where there is something."""
        found: Value | None = item.get(self.attribute)
        for part in self.parts[1:]:
            if found is None:
                return None
            found = _element(found, part)
        return found


def tree(paths: Iterable[Path]) -> Tree:
    """The paths by their parts."""
    root: Tree = {}
    for path in paths:
        node = root
        for part in path.parts[:-1]:
            node = node.setdefault(part, {})
        node[path.parts[-1]] = None
    return root


def picked(item: Item, wanted: Tree) -> Item:
    """What an item has at these paths, with what leads there."""
    found = _picked({"M": item}, wanted)
    return {} if found is None else found["M"]


def clash(paths: Iterable[Path]) -> str | None:
    """Why no request may name all of these, if so."""
    seen: list[Path] = []
    for path in paths:
        for other in seen:
            shared = list(zip(other.parts, path.parts, strict=False))
            differing = next((pair for pair in shared if pair[0] != pair[1]), None)
            if differing is None or type(differing[0]) is not type(differing[1]):
                how = "overlap" if differing is None else "conflict"
                return (
                    f"Two document paths {how} with each other; must remove or rewrite one of these paths; "
                    f"path one: {other}, path two: {path}"
                )
        seen.append(path)
    return None


def _element(value: Value, part: str | int) -> Value | None:
    if isinstance(part, str):
        found: Value | None = value["M"].get(part) if "M" in value else None
        return found
    return value["L"][part] if "L" in value and part < len(value["L"]) else None


def _picked(value: Value, wanted: Tree | None) -> Value | None:
    if wanted is None:
        return value
    parts = {part: element for part in wanted if (element := _element(value, part)) is not None}
    found = {part: kept for part, element in parts.items() if (kept := _picked(element, wanted[part])) is not None}
    if not found:
        return None
    return {"M": found} if "M" in value else {"L": [found[index] for index in sorted(found)]}
