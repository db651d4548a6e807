"""The CPU time that patterns may take for one answer."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.stream_core.filtering.pattern import PatternTooSlow

# The seconds of an answer: at its beginning, and more with each character.
_FIRST_SECONDS, _SECONDS_PER_CHARACTER = 0.1, 2e-5
# The most that an answer saves up, so that a long one can't block the others later.
_MOST_SECONDS = 0.25
_LAST_SECONDS = 2.0
_SEARCH_SECONDS, _LAST_SEARCH_SECONDS = 0.05, 0.25


def _ignore() -> None:
    """The default of `on_spent`."""


class CpuBudget:
    """The CPU time that patterns may take while an answer streams. It grows with the text.

    Once it is spent, all text is buffered until the answer ends. The buffered text has its
    own budget. If that is spent, too, the answer fails.

    Args:
        cpu_seconds: the CPU time of this thread.
        on_spent: called once, when it is spent.
    """

    __slots__ = (
        "_is_last",
        "_on_spent",
        "_remaining_seconds",
        "cpu_seconds",
        "is_spent",
        "search_seconds",
    )

    def __init__(
        self, cpu_seconds: Callable[[], float], on_spent: Callable[[], None] = _ignore
    ) -> None:
        self.cpu_seconds = cpu_seconds
        self._on_spent = on_spent
        self._remaining_seconds = _FIRST_SECONDS
        self._is_last = False
        self.is_spent = False
        """Whether text is buffered until the answer ends."""
        self.search_seconds = _SEARCH_SECONDS
        """The longest that one search may take."""

    def charge(self, characters: int, seconds: float) -> None:
        """Charge the `seconds` of searches in a text with these new `characters`.

        Raises:
            PatternTooSlow: the answer has ended, and the buffered text takes too long.
        """
        if not self._is_last:
            self._remaining_seconds = min(
                self._remaining_seconds + characters * _SECONDS_PER_CHARACTER, _MOST_SECONDS
            )
        self._remaining_seconds -= seconds
        if self._remaining_seconds < 0:
            self.exhaust()

    def exhaust(self) -> None:
        """Spend all of it.

        Raises:
            PatternTooSlow: as of `charge`.
        """
        if self._is_last:
            raise PatternTooSlow(f"the patterns took more than {_LAST_SECONDS:g} s for one answer")
        if not self.is_spent:
            self.is_spent = True
            self._on_spent()

    def begin_last(self) -> None:
        """Begin the budget of the buffered text: the answer has ended."""
        self.is_spent, self._is_last = False, True
        self._remaining_seconds, self.search_seconds = _LAST_SECONDS, _LAST_SEARCH_SECONDS
