"""Joins the names of functions and their namespaces, for model servers without namespaces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

# Limits of OpenAI's API for a function's name.
_LONGEST_NAME = 64
_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_-]")
_HASH_LENGTH = 8

Namespaces = Mapping[str, tuple[str, str]]
"""Namespace and name of each function, by its joined name."""
NO_NAMESPACES: Namespaces = {}


def joined_name(namespace: str, name: str) -> str:
    """The model's name of a function in a namespace. It depends on both names alone."""
    joined = f"{namespace.rstrip('_')}__{name}"
    allowed_name = _NOT_ALLOWED.sub("_", joined)
    if allowed_name == joined and len(joined) <= _LONGEST_NAME:
        return joined
    distinct = sha256(joined.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{allowed_name[: _LONGEST_NAME - _HASH_LENGTH - 1]}_{distinct}"


def namespaces_of(tools: Iterable[Mapping[str, Any]]) -> Namespaces:
    """The functions in namespaces among tools of the Responses API."""
    return {
        joined_name(space["name"], tool["name"]): (space["name"], tool["name"])
        for space in tools
        if space["type"] == "namespace"
        for tool in space["tools"]
    }


def name_fields(name: str, namespaces: Namespaces) -> dict[str, str]:
    """The fields of a call with its function's name, and its namespace if it is in one."""
    if name not in namespaces:
        return {"name": name}
    namespace, function_name = namespaces[name]
    return {"namespace": namespace, "name": function_name}
