"""The activity of a tenant, as nodes report it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True)
class Activity:
    """The counts of one tenant on one node since its start, and the current numbers.

    Args:
        tenant: its id; `id/key` for one of its keys, `id//digest` for one of its users.
        node: its name. Empty for a sum over nodes.
        service: the weighted tokens charged, input and output, with the expected ones.
        requests, input_tokens, output_tokens: charged to bounds, without what was given back.
        answers, connections: the current numbers.
        expected: the part of the service that running answers are expected to use yet.
    """

    tenant: str
    node: str
    service: float = 0.0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    answers: int = 0
    connections: int = 0
    expected: float = 0.0

    @classmethod
    def of(cls, tenant: str, node: str, counts: Mapping[str, float]) -> Self:
        """Read `counts`. Fields of later versions are left out."""
        known = {name: counts[name] for name in _COUNTS & counts.keys()}
        return cls(tenant, node, **known)  # type: ignore[arg-type]  # ints stay ints in JSON

    @property
    def counts(self) -> Mapping[str, float]:
        """The counts that are not 0, by name."""
        return {name: count for name in sorted(_COUNTS) if (count := getattr(self, name))}


_COUNTS = {field.name for field in fields(Activity)} - {"tenant", "node"}
