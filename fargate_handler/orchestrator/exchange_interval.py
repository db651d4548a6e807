"""When tasks tell each other next."""

from __future__ import annotations

_SOON_SECONDS = 0.1


class ExchangeInterval:
    """A tenth of a second where there was nothing to tell, then twice as long each time.

    So a flood that begins at several tasks at once doesn't find each of them alone for a second.

    Args:
        seconds: the longest, unless there is much to tell.
    """

    def __init__(self, seconds: float) -> None:
        self._longest = seconds
        self._last = _SOON_SECONDS

    def next(self, tells: bool, longest: float = 0.0) -> float:
        """Seconds until the next time.

        Args:
            tells: whether there is anything to tell now.
            longest: in seconds, where that is more than usual.
        """
        longest = max(self._longest, longest)
        self._last = min(longest, 2 * self._last) if tells else _SOON_SECONDS
        return self._last
