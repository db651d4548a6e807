"""Where what was created differs from what the template says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def differences(wanted: Any, created: Any, path: str = "") -> Iterator[str]:
    """The places of the template's literal values that were created otherwise, or not at all.

    What a template leaves to CloudFormation (`Ref`, `Fn::…`) is not compared. Names are compared
    without their case and numbers as they are written, since services answer in another spelling
    than templates have.
    """
    if isinstance(wanted, Mapping):
        if not _is_intrinsic(wanted):
            yield from _mapping_differences(wanted, created, path)
    elif isinstance(wanted, list):
        yield from _list_differences(wanted, created, path)
    elif _plain(wanted) != _plain(created):
        yield path


def _mapping_differences(wanted: Mapping[str, Any], created: Any, path: str) -> Iterator[str]:
    there = (
        {str(name).lower(): value for name, value in created.items()}
        if isinstance(created, Mapping)
        else {}
    )
    for name, value in wanted.items():
        yield from differences(value, there.get(name.lower()), f"{path}.{name}".lstrip("."))


def _list_differences(wanted: Sequence[Any], created: Any, path: str) -> Iterator[str]:
    candidates = created if isinstance(created, list) else []
    for element in wanted:
        label = _label(element)
        same = [candidate for candidate in candidates if label and _label(candidate) == label]
        if same and isinstance(element, Mapping):
            yield from differences(element, same[0], f"{path}[{label}]")
        elif all(list(differences(element, candidate)) for candidate in candidates or [None]):
            yield f"{path}[{label}]" if label else path


def _label(element: Any) -> str:
    """By what one tells an element of a list from its neighbours; empty when nothing does."""
    if not isinstance(element, Mapping):
        return ""
    named = {str(name).lower(): value for name, value in element.items()}
    return next((str(named[name]) for name in ("key", "name", "id") if name in named), "")


def _plain(value: Any) -> str:
    """A scalar as text: `80`, `"80"` and `80.0` are one, `true` and `"True"` are one."""
    text = str(value).lower()
    return text.removesuffix(".0") if isinstance(value, float) else text


def _is_intrinsic(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith(("Ref", "Fn::"))
