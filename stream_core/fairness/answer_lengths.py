"""How long the answers of each tenant are, as those that ended tell."""

from __future__ import annotations

_FIRST_GUESS = 256.0
# Of an answer that has ended, in what is expected of the next.
_SHARE_OF_LAST = 0.2
_MOST_KNOWN = 10_000


class AnswerLengths:
    """Means over a tenant's last answers, in tokens of the output."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}

    def expected(self, tenant: str) -> float:
        """How many tokens the next answer will have. A guess where none has ended yet."""
        return self._means.get(tenant, _FIRST_GUESS)

    def ended(self, tenant: str, tokens: int) -> None:
        """Note how long an answer was."""
        mean = self.expected(tenant)
        self._means[tenant] = mean + _SHARE_OF_LAST * (tokens - mean)
        if len(self._means) > _MOST_KNOWN:
            del self._means[next(iter(self._means))]
