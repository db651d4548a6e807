"""A row of the table of limits, and the kinds of rows that differ in numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import regex

from tests.infrastructure.limits.deployment import Deployment, replace_first, values

Fault = Callable[[Deployment], None]


@dataclass(frozen=True)
class Limit:
    """Something that AWS refuses.

    Args:
        name: what is limited, and to what.
        page: AWS's page about it, below https://docs.aws.amazon.com/.
        find: what breaks the limit in a deployment, a line for each.
        faults: changes of a deployment that break it.
        on: the synthesis that the faults are made in.
    """

    name: str
    page: str
    find: Callable[[Deployment], Iterable[str]]
    faults: tuple[Fault, ...]
    on: str = "prod"


def text(
    kind: str,
    path: str,
    page: str,
    *,
    longest: int,
    pattern: str = "",
    on: str = "prod",
    optional: bool = False,
) -> Limit:
    """A row about one text: its length, and the pattern that it must match as a whole.

    Args:
        optional: whether no template sets it. Then its faults set it.
    """

    def find(deployment: Deployment) -> Iterator[str]:
        for where, properties in deployment.resources(kind):
            stack = where.partition("/")[0]
            for value in values(properties, path):
                found = deployment.text(value, stack)
                if len(found) > longest:
                    yield f"{where} {path}: {len(found)} characters"
                if pattern and not regex.fullmatch(pattern, found):
                    yield f"{where} {path}: {found!r}"

    def put(value: str) -> Fault:
        return lambda found: replace_first(found, kind, path, value, optional=optional)

    faults = (put("x" * (longest + 1)), *((put("é'\n"),) if pattern else ()))
    return Limit(f"{kind} {path}: {longest} characters, {pattern or 'any'}", page, find, faults, on)


def count(kind: str, path: str, page: str, *, most: int, on: str = "prod") -> Limit:
    """A row about the number of items in each list at a path."""

    def find(deployment: Deployment) -> Iterator[str]:
        for where, properties in deployment.resources(kind):
            for items in values(properties, path):
                if len(items) > most:
                    yield f"{where} {path}: {len(items)} items"

    def fault(deployment: Deployment) -> None:
        for _, properties in deployment.resources(kind):
            for items in values(properties, path):
                replace_first(deployment, kind, path, list(items)[:1] * (most + 1))
                return
        raise LookupError(f"no {kind} has {path}")

    return Limit(f"{kind} {path}: {most} items", page, find, (fault,), on)


def number(
    kind: str,
    path: str,
    page: str,
    *,
    least: float,
    most: float,
    on: str = "prod",
    optional: bool = False,
) -> Limit:
    """A row about a number's range."""

    def find(deployment: Deployment) -> Iterator[str]:
        for where, properties in deployment.resources(kind):
            for value in values(properties, path):
                if not least <= float(value) <= most:
                    yield f"{where} {path}: {value}"

    def put(value: float) -> Fault:
        return lambda found: replace_first(found, kind, path, value, optional=optional)

    faults = (put(least - 1), put(most + 1))
    return Limit(f"{kind} {path}: {least} to {most}", page, find, faults, on)


def size(kind: str, path: str, page: str, *, most: int, on: str = "prod") -> Limit:
    """A row about the bytes of a value as JSON, with all references replaced."""

    def find(deployment: Deployment) -> Iterator[str]:
        for where, properties in deployment.resources(kind):
            for value in values(properties, path):
                found = deployment.size(value, where.partition("/")[0])
                if found > most:
                    yield f"{where} {path}: {found} bytes"

    def fault(deployment: Deployment) -> None:
        replace_first(deployment, kind, path, {"Padding": "x" * most})

    return Limit(f"{kind} {path}: {most} bytes", page, find, (fault,), on)


def too_many(counted: Mapping[str, float], most: float, what: str) -> Iterator[str]:
    """A line for each that has too many."""
    for name, found in counted.items():
        if found > most:
            yield f"{name}: {found:g} {what}"


def repeated(deployment: Deployment, kind: str, times: int, change: Any = None) -> None:
    """Put copies of the first resource of a type into its stack, each changed by a function."""
    for template in deployment.templates.values():
        for name, resource in list(template["Resources"].items()):
            if resource["Type"] == kind:
                for number in range(times):
                    made = {**resource, "Properties": {**resource.get("Properties", {})}}
                    if change is not None:
                        change(made["Properties"], number)
                    template["Resources"][f"{name}{number}"] = made
                return
    raise LookupError(f"there is no {kind}")
