"""Bounds the tokens of prompts in prefill, by the delay of first tokens that they cause."""

from __future__ import annotations

# The weight that earlier first tokens lose with each new one.
_FORGOTTEN_SHARE = 0.02
_FEWEST_FIRST_TOKENS = 8
# Below this t-value, squared, a slope may be chance.
_CERTAIN = 6.0
_FIRST_WINDOW, _WIDEST_WINDOW = 1_024.0, 1e9
# Growth by each prompt whose first token shows no delay, as a part of its tokens.
_GROWTH = 0.5
_NO_NOISE = 1e-12


class PrefillWindow:
    """The most tokens of prompts in prefill, so that a newcomer waits for `delay` at most.

    A single engine computes one prompt after the other, so a newcomer behind 8,000 tokens waits for
    them. A service of many machines computes them in parallel. A regression of the times to first
    token over the tokens ahead shows which it is. Its slope is the delay of each token
    ahead, and the window is `delay` divided by it. Where no slope is certain, on this node or on
    another, the window grows while prompts wait for it, by half of each prompt that was computed.
    It never grows faster, since a few first tokens may be wrong.

    Args:
        delay: in seconds.
    """

    __slots__ = ("_ahead", "_delay", "_is_short", "_products", "_seconds", "_squares",
                 "_variation", "_weight", "delay_on_other_nodes", "slope", "tokens")  # fmt: skip

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._is_short = False
        self.tokens = _FIRST_WINDOW
        """The window."""
        self.slope: float | None = None
        """The delay of each token ahead, in seconds. None: it isn't certain that there is any."""
        self.delay_on_other_nodes = 0.0
        """The same by the mean of all nodes' reports. 0: none is certain."""
        # Weighted means, and sums of the squares and products of the differences from them.
        self._weight = self._ahead = self._seconds = 0.0
        self._squares = self._products = self._variation = 0.0

    def record_waiting(self) -> None:
        """Record that a prompt waits for room in the window."""
        self._is_short = True

    def record_first_token(self, ahead: float, own: float, seconds: float) -> None:
        """Learn from a first token.

        Args:
            ahead: tokens of other prompts that were in prefill when its call started.
            own: tokens of its prompt.
            seconds: from that moment until the first token came.
        """
        kept = 1 - _FORGOTTEN_SHARE
        self._weight = self._weight * kept + 1
        more, longer = ahead - self._ahead, seconds - self._seconds
        self._ahead += more / self._weight
        self._seconds += longer / self._weight
        self._squares = self._squares * kept + more * (ahead - self._ahead)
        self._products = self._products * kept + more * (seconds - self._seconds)
        self._variation = self._variation * kept + longer * (seconds - self._seconds)
        self.slope = self._slope()
        grown = min(_WIDEST_WINDOW, self.tokens + _GROWTH * own)
        if slope := self.slope or self.delay_on_other_nodes:
            self.tokens = min(grown, self._delay / slope)
        elif self._is_short:
            self.tokens = grown
        self._is_short = False

    def _slope(self) -> float | None:
        if self._weight < _FEWEST_FIRST_TOKENS or self._products <= 0:
            return None
        explained = self._products**2 / self._squares
        by_chance = max(self._variation - explained, _NO_NOISE) / (self._weight - 2)
        return self._products / self._squares if explained >= _CERTAIN * by_chance else None
