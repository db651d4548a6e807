"""The prices of models, from the operator's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple, Self

NANODOLLARS = 1_000_000_000
"""In a dollar."""

_MILLION = 1_000_000
# The highest cost of an answer: a million dollars. Stores add costs up in 64 bits.
_MOST_NANODOLLARS = 1_000_000 * NANODOLLARS
_FEWEST_NUMBERS, _MOST_NUMBERS = 2, 4


class TokenPrice(NamedTuple):
    """Dollars per million tokens: of input, of output, of input from the prompt's cache, and of
    input that is written to it.
    """

    input: float
    output: float
    cached: float
    written: float

    def dollars(self, input_tokens: int, output_tokens: int, cached: int, written: int) -> float:
        """The dollars of one call. `cached` and `written` tokens are part of the input."""
        cached = min(cached, input_tokens)
        written = min(written, input_tokens - cached)
        computed = (input_tokens - cached - written) * self.input
        stored = cached * self.cached + written * self.written
        return (computed + stored + output_tokens * self.output) / _MILLION


@dataclass(frozen=True, slots=True)
class ModelPrices:
    """The prices by the model's name."""

    by_model: Mapping[str, TokenPrice] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `name=input/output,other=input/output/cached/written`.

        Raises:
            ValueError: a name is missing or there twice, or a price is no number from 0 on.
        """
        prices: dict[str, TokenPrice] = {}
        for entry in filter(None, map(str.strip, text.split(","))):
            name, _, all_of_it = entry.rpartition("=")
            if not name or name in prices:
                raise ValueError(f"has {entry!r}, which has no name, or one that is there already")
            price = _price(all_of_it)
            if price is None:
                raise ValueError(
                    f"has {entry!r}, whose prices are not two to four numbers of dollars for a "
                    "million tokens: name=input/output, name=input/output/cached or "
                    "name=input/output/cached/written"
                )
            prices[name] = price
        return cls(prices)

    def cost(
        self, model: str, input_tokens: int, output_tokens: int, cached: int = 0, written: int = 0
    ) -> float | None:
        """The dollars of one call. None for a model without a price.

        Args:
            cached: tokens of the input that came from the prompt's cache.
            written: tokens of the input that were written to it.
        """
        price = self.by_model.get(model)
        if price is None:
            return None
        return price.dollars(input_tokens, output_tokens, cached, written)

    def nanodollars(
        self, model: str, input_tokens: int, output_tokens: int, cached: int = 0, written: int = 0
    ) -> int | None:
        """The same in billionths of a dollar, rounded up, so that sums are exact."""
        cost = self.cost(model, input_tokens, output_tokens, cached, written)
        return None if cost is None else _nanodollars(cost)

    def most_nanodollars(self, model: str, input_tokens: int, output_tokens: int) -> int | None:
        """The most that a call can cost, however its input is cached. None: it has no price."""
        price = self.by_model.get(model)
        if price is None:
            return None
        dearest = max(price.input, price.cached, price.written)
        return _nanodollars((input_tokens * dearest + output_tokens * price.output) / _MILLION)


def _nanodollars(cost: float) -> int:
    return min(_MOST_NANODOLLARS, ceil(round(cost * NANODOLLARS, 3)))


def _price(text: str) -> TokenPrice | None:
    try:
        numbers = [*map(float, text.split("/"))]
    except ValueError:
        return None
    if not _FEWEST_NUMBERS <= len(numbers) <= _MOST_NUMBERS:
        return None
    if not all(0 <= number < _MILLION for number in numbers):
        return None
    # Without a price of their own, cached and written tokens cost as other input.
    return TokenPrice(*numbers, *[numbers[0]] * (_MOST_NUMBERS - len(numbers)))
