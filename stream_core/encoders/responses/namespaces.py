"""The names of functions in a namespace of tools, for model servers that know single functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

# What OpenAI's API takes as the name of a function.
_LONGEST_NAME = 64
_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_-]")
_HASH_LENGTH = 8

Namespaces = Mapping[str, tuple[str, str]]
"""By the joined names: namespace and name of each function."""
NO_NAMESPACES: Namespaces = {}


def joined_name(namespace: str, name: str) -> str:
    """The name under which a model is offered a function of a namespace, always the same."""
    joined = f"{namespace.rstrip('_')}__{name}"
    allowed = _NOT_ALLOWED.sub("_", joined)
    if allowed == joined and len(joined) <= _LONGEST_NAME:
        return joined
    distinct = sha256(joined.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{allowed[: _LONGEST_NAME - _HASH_LENGTH - 1]}_{distinct}"


def namespaces_of(tools: Iterable[Mapping[str, Any]]) -> Namespaces:
    """The functions in the namespaces among these tools of the Responses API."""
    return {
        joined_name(space["name"], tool["name"]): (space["name"], tool["name"])
        for space in tools
        if space["type"] == "namespace"
        for tool in space["tools"]
    }


def name_fields(name: str, namespaces: Namespaces) -> dict[str, str]:
    """The fields of a call that name its function: with the namespace if it is in one."""
    if name not in namespaces:
        return {"name": name}
    space, own = namespaces[name]
    return {"namespace": space, "name": own}
