"""When tasks tell each other next."""

from __future__ import annotations

_SOON_SECONDS = 0.1


class ExchangeInterval:
    """A tenth of a second while there is nothing to tell, then twice as long each time.

    So a flood that begins at several tasks at once doesn't find each of them alone for a second.

    Args:
        longest: in seconds.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._last = _SOON_SECONDS

    def next(self, tells: bool, least: float = 0.0) -> float:
        """Seconds until the next time.

        Args:
            tells: whether there is anything to tell now.
            least: in seconds, by how much there is to tell. It may be more than the longest.
        """
        self._last = min(self._longest, 2 * self._last) if tells else _SOON_SECONDS
        return max(self._last, least)
