"""What can be made to go wrong, on command."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")


class Faults(BaseModel):
    """The faults in force; all of them at once are replaced, and none given is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    throttled_share: float = Field(default=0.0, ge=0, le=1)
    """The share of requests that is throttled: refused, or in part for batches."""
    throttled_operations: frozenset[str] = frozenset()
    """Those that this strikes; all that concern items when empty."""
    delay_ms: float = Field(default=0.0, ge=0)
    """Every answer comes so much later; what it says was done at once."""
    unreachable_seconds: float = Field(default=0.0, ge=0)
    """For so long, from now on, connections are reset; `/_…` is still answered."""
    index_lag_ms: float = Field(default=0.0, ge=0)
    """An index shows a write so much later than its table."""
    seed: int = 0
    """Of the dice that choose who is struck."""


class FaultInjector:
    """Says for each request what goes wrong with it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.inject(Faults())

    def inject(self, faults: Faults) -> None:
        """Put these faults in force, instead of any others."""
        self.faults = faults
        self._dice = random.Random(faults.seed)
        self._unreachable_until = self._clock() + faults.unreachable_seconds

    @property
    def unreachable(self) -> bool:
        """Whether connections are reset now."""
        return self._clock() < self._unreachable_until

    @property
    def visible_until(self) -> float:
        """An index shows what was written at or before this time."""
        return self._clock() - self.faults.index_lag_ms / 1000

    def throttles(self, operation: str) -> bool:
        """Whether this request is struck."""
        operations = self.faults.throttled_operations
        struck = self.faults.throttled_share > 0 and self._dice.random() < self.faults.throttled_share
        return struck and (not operations or operation in operations)

    def unprocessed(self, operation: str, count: int) -> frozenset[int]:
        """Which parts of a batch are handed back: none, or any number of them."""
        if not self.throttles(operation):
            return frozenset()
        return frozenset(self._dice.sample(range(count), self._dice.randint(1, count)))
