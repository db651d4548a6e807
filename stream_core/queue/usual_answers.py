"""What the answers of each tenant usually are, as those that ended tell."""

from __future__ import annotations

from typing import NamedTuple

# Of an answer that has ended, in what is expected of the next.
_SHARE_OF_LAST = 0.2
_MOST_KNOWN = 10_000


class UsualAnswer(NamedTuple):
    """Means of a tenant's last answers.

    `tokens`: of the output. `service`: as `AnswerMeter` counts it, with the input. `answers`: how
    many have ended.
    """

    tokens: float
    service: float
    answers: int


# Where none has ended yet.
_GUESS = UsualAnswer(256.0, 512.0, 0)


class UsualAnswers:
    """Remembers what answers were, of 10,000 tenants."""

    def __init__(self) -> None:
        self._of: dict[str, UsualAnswer] = {}

    def knows(self, tenant: str) -> bool:
        """Whether any of its answers has ended."""
        return tenant in self._of

    def of(self, tenant: str) -> UsualAnswer:
        """What the next answer is expected to be. A guess where none has ended yet."""
        return self._of.get(tenant, _GUESS)

    def to_come(self, tenant: str, tokens: int) -> float:
        """How many more tokens an answer is expected to be given that has so many.

        Where none has ended yet half of the guess is always to come. To expect as many as have come
        would charge eight answers of 390 tokens for twice what they were given.
        """
        usual = self.of(tenant)
        return max(usual.tokens - tokens, 0.0 if usual.answers else usual.tokens / 2)

    def ended(self, tenant: str, tokens: float, service: float) -> None:
        """Note what an answer was. The first one takes the place of the guess."""
        usual = self.of(tenant)
        share = max(_SHARE_OF_LAST, 1 / (usual.answers + 1))
        self._of[tenant] = UsualAnswer(
            usual.tokens + share * (tokens - usual.tokens),
            usual.service + share * (service - usual.service),
            usual.answers + 1,
        )
        if len(self._of) > _MOST_KNOWN:
            del self._of[next(iter(self._of))]
