"""The base of all records: an event as one line of the operator's log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord(ABC):
    """An event. Its fields are the line's; one that is None is left out.

    A field's annotation has its meaning, from which docs/log-lines.md is made. `str` gives the line
    as a person reads it.

    No field has users' text, a key, a token or a session's id, which opens its session.
    """

    EVENT: ClassVar[str]
    """What happened, in one word."""
    MOST_PER_SECOND: ClassVar[int | None] = 1
    """The most lines of a `kind` in a second. None: all are logged."""

    @property
    def kind(self) -> str:
        """What `MOST_PER_SECOND` counts."""
        return self.EVENT

    def to_fields(self) -> dict[str, Any]:
        """The line's fields by name."""
        names, values_of = _reading(type(self))
        values = zip(names, values_of(self), strict=True)
        return {name: value for name, value in values if value is not None}

    @abstractmethod
    def __str__(self) -> str:
        """The line as a person reads it."""


@cache
def names_of(record: type[EventRecord]) -> tuple[str, ...]:
    """The names of a record's fields."""
    return tuple(field.name for field in fields(record))


@cache
def _reading(
    record: type[EventRecord],
) -> tuple[tuple[str, ...], Callable[[EventRecord], tuple[Any, ...]]]:
    """The names of a line's fields, and what reads them of a record."""
    names = names_of(record)
    return ("event", *names), attrgetter("EVENT", *names)


def milliseconds(seconds: float) -> float:
    """Seconds as a line gives them: in milliseconds, with one digit behind the point."""
    return int(seconds * 10_000 + 0.5) / 10  # `round` takes four times as long
