"""Makes micro-batches of a model's tokens: a delta is cut when its window ends or when it is full."""

from __future__ import annotations


class Batcher:
    """Tokens of one response that are not in its log yet.

    The first token is never held back, and after a silence the next one isn't either: a window opens when something
    is delivered. Slots are those of the delivery clock.
    """

    __slots__ = ("_most", "_tokens", "due")

    def __init__(self, most_tokens: int) -> None:
        self._tokens: list[str] = []
        self._most = most_tokens
        self.due = 0
        """The slot from which on the next delivery may happen."""

    def add(self, token: str) -> bool:
        """Take a token; whether the batch is full, so that a delta must be cut now."""
        self._tokens.append(token)
        return len(self._tokens) >= self._most

    def cut(self) -> str:
        """The text of the delta, which is empty when no token waits."""
        tokens = self._tokens
        text = tokens[0] if len(tokens) == 1 else "".join(tokens)
        tokens.clear()
        return text
