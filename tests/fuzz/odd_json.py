"""JSON that was right, with values that are odd. The same generator makes the same changes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

_DEEP = "<deep>"
_DEPTHS = (30, 190, 300, 1_100, 20_000)
_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e300, 2**31, 2**63, 2**64, 10**30, -(10**30), 10**400, "", "x" * 300,
    "\x00", "🙂", "\ud800", "\udc00x", [], {}, [[]], [None], {"": ""}, {"type": "unknown"},
    {"type": None}, {"role": "nobody", "content": "x"}, float("nan"), float("inf"), "NaN",
    _DEEP, "user", "assistant", "tool", "system", "text", "data:,", "http://127.0.0.1:1/",
)  # fmt: skip

Place = tuple[Any, Any]
"""A list or an object, and an index or a name in it."""


def odd_json(right: Any, chance: random.Random) -> bytes:
    """`right` with 0 to 3 changes of values, each in any place. Python's JSON: it may have NaN."""
    changed = copy.deepcopy(right)
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        places = list(_places(changed))
        chance.choice(_CHANGES)(*chance.choice(places), chance)
    text = json.dumps(changed, ensure_ascii=chance.random() < 0.5)
    depth = chance.choice(_DEPTHS)
    nested = chance.choice(("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth))
    # A lone surrogate is no UTF-8, and is sent all the same.
    return text.replace(json.dumps(_DEEP), nested).encode("utf-8", "surrogatepass")


def _places(value: Any) -> list[Place]:
    inner: list[Place] = []
    if isinstance(value, dict):
        inner = [(value, name) for name in value]
    elif isinstance(value, list):
        inner = [(value, index) for index in range(len(value))]
    return inner + [place for holder, key in inner for place in _places(holder[key])]


def _replace(holder: Any, key: Any, chance: random.Random) -> None:
    holder[key] = copy.deepcopy(chance.choice(_VALUES))


def _leave_out(holder: Any, key: Any, _: random.Random) -> None:
    del holder[key]
    if not holder and isinstance(holder, dict):
        holder["more"] = None


def _add(holder: Any, _: Any, chance: random.Random) -> None:
    value = copy.deepcopy(chance.choice(_VALUES))
    if isinstance(holder, dict):
        holder[chance.choice(("more", "type", "id", "", "\ud800"))] = value
    else:
        holder.insert(chance.randint(0, len(holder)), value)


def _repeat(holder: Any, key: Any, chance: random.Random) -> None:
    """A list's item several times, with the same ids. A value otherwise becomes a list of it."""
    times = chance.choice((2, 3, 200))
    if isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(holder[key]) for _ in range(times)]
    else:
        holder[key] = [holder[key]] * times


def _wrap(holder: Any, key: Any, chance: random.Random) -> None:
    holder[key] = chance.choice(([holder[key]], {"text": holder[key]}, json.dumps(holder[key])))


_CHANGES: tuple[Callable[[Any, Any, random.Random], None], ...] = (
    _replace, _replace, _replace, _leave_out, _add, _repeat, _wrap,
)  # fmt: skip
