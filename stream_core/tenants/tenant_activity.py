"""What nodes report of each tenant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True)
class Activity:
    """What one node has done for one tenant since the node was started, and does now.

    Args:
        tenant: its id; `id/key` for what one of its keys has used, `id//digest` for one of its
            users.
        service: weighted tokens that were charged, in and out, with those that are expected.
        requests, input_tokens, output_tokens: that were charged to bounds, without what went back.
        answers, connections: how many there are now.
        expected: the part of the service that running answers are still expected to be served.
    """

    tenant: str
    task: str
    service: float = 0.0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    answers: int = 0
    connections: int = 0
    expected: float = 0.0

    @classmethod
    def of(cls, tenant: str, node: str, counts: Mapping[str, float]) -> Self:
        """Read `counts`. What another version has added is left out."""
        known = {name: counts[name] for name in _COUNTS & counts.keys()}
        return cls(tenant, node, **known)  # type: ignore[arg-type]  # ints stay ints in JSON

    @property
    def counts(self) -> Mapping[str, float]:
        """All that isn't 0, by its name."""
        return {name: count for name in sorted(_COUNTS) if (count := getattr(self, name))}


_COUNTS = {field.name for field in fields(Activity)} - {"tenant", "task"}
