"""Updates, understood: each makes the new item of the old one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from tests.dynamodb_emulator.attribute_values import SET_TYPES, Item, Value, added, type_of
from tests.dynamodb_emulator.errors import invalid
from tests.dynamodb_emulator.expressions.conditions import Placeholder, check_type
from tests.dynamodb_emulator.expressions.paths import Path

_WRONG_TYPE = "An operand in the update expression has an incorrect data type"
_NO_SUCH_PLACE = "The document path provided in the update expression is invalid for update"


class Source(Protocol):
    """What SET can assign."""

    def value(self, item: Item, values: Item) -> Value | None:
        """Its value, of the item as it was."""

    def check(self, values: Item) -> None:
        """Refuse values of the request that could never do."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A path or a value of the request."""

    operand: Path | Placeholder

    def value(self, item: Item, values: Item) -> Value | None:
        """See `Source`."""
        return self.operand.value(item, values)

    def check(self, values: Item) -> None:
        """See `Source`."""


@dataclass(frozen=True, slots=True)
class IfNotExists:
    """`if_not_exists(path, otherwise)`."""

    path: Path
    otherwise: Source

    def value(self, item: Item, values: Item) -> Value | None:
        """See `Source`."""
        found = self.path.value(item, values)
        return self.otherwise.value(item, values) if found is None else found

    def check(self, values: Item) -> None:
        """See `Source`."""
        self.otherwise.check(values)


@dataclass(frozen=True, slots=True)
class ListAppend:
    """`list_append(left, right)`."""

    left: Source
    right: Source

    def value(self, item: Item, values: Item) -> Value | None:
        """See `Source`."""
        return {"L": [*_operand(self.left, "L", item, values), *_operand(self.right, "L", item, values)]}

    def check(self, values: Item) -> None:
        """See `Source`."""
        _check("list_append", (self.left, self.right), values, "L")


@dataclass(frozen=True, slots=True)
class Sum:
    """`left + right`, `left - right`."""

    left: Source
    sign: str
    right: Source

    def value(self, item: Item, values: Item) -> Value | None:
        """See `Source`."""
        left, right = (_operand(source, "N", item, values) for source in (self.left, self.right))
        return added({"N": left}, {"N": right}, -1 if self.sign == "-" else 1)

    def check(self, values: Item) -> None:
        """See `Source`."""
        _check(self.sign, (self.left, self.right), values, "N")


@dataclass(frozen=True, slots=True)
class Update:
    """An UpdateExpression."""

    assignments: tuple[tuple[Path, Source], ...] = ()
    removals: tuple[Path, ...] = ()
    additions: tuple[tuple[Path, Placeholder], ...] = ()
    deletions: tuple[tuple[Path, Placeholder], ...] = ()

    @property
    def paths(self) -> Iterator[Path]:
        """What it changes."""
        yield from self.removals
        for path, _ in (*self.assignments, *self.additions, *self.deletions):
            yield path

    def check(self, values: Item) -> None:
        """Refuse values of the request that could never do."""
        for _, source in self.assignments:
            source.check(values)
        for _, amount in self.additions:
            check_type("ADD", amount, values, SET_TYPES | {"N"})
        for _, elements in self.deletions:
            check_type("DELETE", elements, values, SET_TYPES)

    def applied(self, item: Item, values: Item) -> Item:
        """The item as it is afterwards."""
        draft = _Draft(item)
        # Those behind the end of a list join it in the order of their indexes.
        for path, source in sorted(self.assignments, key=lambda assignment: _index(assignment[0])):
            draft.put(path, _present(source.value(item, values)))
        for path, amount in self.additions:
            draft.put(path, _increased(path.value(item, values), values[amount.name]))
        for path, elements in self.deletions:
            draft.put(path, _reduced(path.value(item, values), values[elements.name]))
        for path in self.removals:
            draft.put(path, None)
        return draft.finished()


class _Draft:
    """A copy of an item, being updated. List elements that go leave a gap until the end, so that indexes stay true."""

    def __init__(self, item: Item) -> None:
        self._item: Item = orjson.loads(orjson.dumps(item))
        self._lists: list[list[Any]] = []

    def put(self, path: Path, value: Value | None) -> None:
        """Put a value in its place, or nothing."""
        place, part = self._place(path), path.parts[-1]
        if isinstance(place, list) and isinstance(part, int):
            self._lists.append(place)
            if part < len(place):
                place[part] = value
            else:
                place.append(value)
        elif isinstance(place, dict) and isinstance(part, str):
            if value is None:
                place.pop(part, None)
            else:
                place[part] = value
        else:
            raise invalid(_NO_SUCH_PLACE)

    def finished(self) -> Item:
        """The item."""
        for each in self._lists:
            each[:] = [element for element in each if element is not None]
        return self._item

    def _place(self, path: Path) -> Any:
        if len(path.parts) == 1:
            return self._item
        parent = Path(path.parts[:-1]).value(self._item, {})
        return None if parent is None else parent.get("M", parent.get("L"))


def _index(path: Path) -> int:
    last = path.parts[-1]
    return last if isinstance(last, int) else -1


def _present(value: Value | None) -> Value:
    if value is None:
        raise invalid("The provided expression refers to an attribute that does not exist in the item")
    return value


def _operand(source: Source, kind: str, item: Item, values: Item) -> Any:
    value = _present(source.value(item, values))
    if kind not in value:
        raise invalid(_WRONG_TYPE)
    return value[kind]


def _increased(old: Value | None, amount: Value) -> Value:
    if old is None:
        return amount
    kind = type_of(amount)
    if kind not in old:
        raise invalid(_WRONG_TYPE)
    if kind == "N":
        return added(old, amount)
    return {kind: [*old[kind], *(element for element in amount[kind] if element not in old[kind])]}


def _reduced(old: Value | None, elements: Value) -> Value | None:
    if old is None:
        return None
    kind = type_of(elements)
    if kind not in old:
        raise invalid(_WRONG_TYPE)
    left = [element for element in old[kind] if element not in elements[kind]]
    return {kind: left} if left else None


def _check(function: str, sources: tuple[Source, Source], values: Item, kind: str) -> None:
    for source in sources:
        source.check(values)
        if isinstance(source, Plain):
            check_type(function, source.operand, values, {kind})
