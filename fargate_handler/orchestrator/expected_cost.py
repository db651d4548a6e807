"""What a request costs at most, before its model has told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from evenflow.stream_core.tenants.charges import TokenDemand


@dataclass(frozen=True, slots=True)
class ExpectedCost:
    """What a request is expected to cost.

    Args:
        model: the model's name at its server.
        input_tokens: estimated.
        output_tokens: the longest that it may be. None: nothing bounds it.
    """

    model: str
    input_tokens: int
    output_tokens: int | None

    @classmethod
    def of(cls, asked: TokenDemand, model: str) -> Self:
        """What a request is expected to cost."""
        return cls(model, asked.input_tokens, asked.output_tokens)
