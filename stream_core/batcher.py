"""Makes micro-batches of a model's tokens: a delta is cut when its window ends or when it is full."""

from __future__ import annotations


class Batcher:
    """Tokens of one response that wait for the end of their window.

    Whether a token waits at all is the stream's business: the first one doesn't, nor does one after a silence.
    """

    __slots__ = ("_most", "_tokens")

    def __init__(self, most_tokens: int) -> None:
        self._tokens: list[str] = []
        self._most = most_tokens

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
