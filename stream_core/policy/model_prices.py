"""What models cost, as the operator says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Self

NANODOLLARS = 1_000_000_000
"""In a dollar."""

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelPrices:
    """Dollars for a million tokens, of the input and of the output, by the model's name."""

    by_model: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `name=input/output,other=input/output`.

        Raises:
            ValueError: a name is missing or there twice, or a price is no number from 0 on.
        """
        prices: dict[str, tuple[float, float]] = {}
        for entry in filter(None, map(str.strip, text.split(","))):
            name, _, both = entry.rpartition("=")
            given, _, gives = both.partition("/")
            if not name or name in prices:
                raise ValueError(f"has {entry!r}, which has no name, or one that is there already")
            try:
                prices[name] = float(given), float(gives)
            except ValueError:
                prices[name] = -1.0, -1.0
            if not all(0 <= price < _MILLION for price in prices[name]):
                raise ValueError(
                    f"has {entry!r}, whose prices are not two numbers of dollars for a million "
                    "tokens: name=input/output"
                )
        return cls(prices)

    def cost(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """The dollars of one call. None for a model without a price."""
        prices = self.by_model.get(model)
        if prices is None:
            return None
        return (input_tokens * prices[0] + output_tokens * prices[1]) / _MILLION

    def nanodollars(self, model: str, input_tokens: int, output_tokens: int) -> int | None:
        """The same in billionths of a dollar, rounded up, so that sums are exact."""
        cost = self.cost(model, input_tokens, output_tokens)
        return None if cost is None else ceil(round(cost * NANODOLLARS, 3))
