"""Estimates the output length of each tenant's next answer."""

from __future__ import annotations

from typing import NamedTuple

# The weight of the last answer in the mean.
_LAST_WEIGHT = 0.2
_MOST_KNOWN = 10_000


class TypicalAnswer(NamedTuple):
    """Means of a tenant's last answers.

    `tokens`: of the output. `service`: as `AnswerMeter` counts it, with the input. `answers`: the
    number of ended answers.
    """

    tokens: float
    service: float
    answers: int


# Before the first answer of a tenant has ended.
_GUESS = TypicalAnswer(256.0, 512.0, 0)


class OutputLengthEstimator:
    """Exponential means of the answers of 10,000 tenants."""

    def __init__(self) -> None:
        self._of: dict[str, TypicalAnswer] = {}

    def knows(self, tenant: str) -> bool:
        """Whether any of its answers has ended."""
        return tenant in self._of

    def of(self, tenant: str) -> TypicalAnswer:
        """The expected next answer of a tenant. A guess until one has ended."""
        return self._of.get(tenant, _GUESS)

    def to_come(self, tenant: str, tokens: int) -> float:
        """The expected remaining tokens of an answer with `tokens` so far.

        Until a first answer has ended, that is at least half of the guess. As many as there are so
        far would charge eight answers of 390 tokens for twice their tokens.
        """
        usual = self.of(tenant)
        return max(usual.tokens - tokens, 0.0 if usual.answers else usual.tokens / 2)

    def ended(self, tenant: str, tokens: float, service: float) -> None:
        """Record an ended answer. The first one replaces the guess."""
        usual = self.of(tenant)
        share = max(_LAST_WEIGHT, 1 / (usual.answers + 1))
        self._of[tenant] = TypicalAnswer(
            usual.tokens + share * (tokens - usual.tokens),
            usual.service + share * (service - usual.service),
            usual.answers + 1,
        )
        if len(self._of) > _MOST_KNOWN:
            del self._of[next(iter(self._of))]
