"""What models cost, as the operator says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple, Self

NANODOLLARS = 1_000_000_000
"""In a dollar."""

_MILLION = 1_000_000


class Price(NamedTuple):
    """Dollars per million tokens: of input, of output, and of input from a cache."""

    input: float
    output: float
    cached: float


@dataclass(frozen=True, slots=True)
class ModelPrices:
    """The prices by the model's name."""

    by_model: Mapping[str, Price] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `name=input/output,other=input/output/cached`.

        Raises:
            ValueError: a name is missing or there twice, or a price is no number from 0 on.
        """
        prices: dict[str, Price] = {}
        for entry in filter(None, map(str.strip, text.split(","))):
            name, _, all_of_it = entry.rpartition("=")
            if not name or name in prices:
                raise ValueError(f"has {entry!r}, which has no name, or one that is there already")
            price = _price(all_of_it)
            if price is None:
                raise ValueError(
                    f"has {entry!r}, whose prices are not two or three numbers of dollars for a "
                    "million tokens: name=input/output or name=input/output/cached"
                )
            prices[name] = price
        return cls(prices)

    def cost(
        self, model: str, input_tokens: int, output_tokens: int, cached_tokens: int = 0
    ) -> float | None:
        """The dollars of one call. None for a model without a price.

        Args:
            cached_tokens: the input tokens that came from a cache.
        """
        price = self.by_model.get(model)
        if price is None:
            return None
        cached = min(cached_tokens, input_tokens)
        computed = (input_tokens - cached) * price.input + cached * price.cached
        return (computed + output_tokens * price.output) / _MILLION

    def nanodollars(
        self, model: str, input_tokens: int, output_tokens: int, cached_tokens: int = 0
    ) -> int | None:
        """The same in billionths of a dollar, rounded up, so that sums are exact."""
        cost = self.cost(model, input_tokens, output_tokens, cached_tokens)
        return None if cost is None else ceil(round(cost * NANODOLLARS, 3))


def _price(text: str) -> Price | None:
    try:
        numbers = [*map(float, text.split("/"))]
    except ValueError:
        return None
    if len(numbers) not in (2, 3) or not all(0 <= number < _MILLION for number in numbers):
        return None
    return Price(numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else numbers[0])
