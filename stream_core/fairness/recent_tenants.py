"""Who has asked lately, and so may ask again."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

# Who pauses for so many of their longest pauses is not expected back, and never after the last.
_PAUSES, _SHORTEST_SECONDS, _LONGEST_SECONDS = 3.0, 13.0, 60.0
# Of the longest pause, what is left of it after each question.
_PAUSE_KEPT_SHARE = 0.9
# Other tasks tell of theirs each second.
_TOLD_SECONDS = 5.0
# Decisions depend on whether there are others, not on how many.
_MOST_TOLD = 2


class _Asked(NamedTuple):
    at: float
    pause: float
    until: float


class RecentTenants:
    """The tenants that are expected back, here or at other tasks.

    Slots are kept free for them. So who has asked each second and asks no more is expected for 13
    seconds, and who has asked once, or twice a minute, for a minute.
    """

    def __init__(self) -> None:
        # The last one is last.
        self._here: dict[str, _Asked] = {}
        self._elsewhere: dict[str, _Asked] = {}

    def asks(self, tenant: str, now: float) -> None:
        """A tenant asks something here."""
        last = self._here.pop(tenant, None)
        if last is None:
            pause = _LONGEST_SECONDS
        elif last.pause == _LONGEST_SECONDS:  # of the first question none is known
            pause = now - last.at
        else:
            pause = max(now - last.at, _PAUSE_KEPT_SHARE * last.pause)
        expected = min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, _PAUSES * pause))
        self._here[tenant] = _Asked(now, pause, now + expected)
        _forget(self._here, now)

    def ask_elsewhere(self, tenants: Iterable[str], now: float) -> None:
        """Other tasks expect tenants back."""
        for tenant in tenants:
            self._elsewhere.pop(tenant, None)
            self._elsewhere[tenant] = _Asked(now, 0.0, now + _TOLD_SECONDS)
        _forget(self._elsewhere, now)

    def here(self, now: float) -> list[str]:
        """The tenants that asked here, the last two at most."""
        return [*islice(_expected(self._here, now), _MOST_TOLD)]

    def several(self, now: float) -> bool:
        """Whether more than one tenant has asked."""
        last = {
            *islice(_expected(self._here, now), 2),
            *islice(_expected(self._elsewhere, now), 2),
        }
        return len(last) > 1

    def that_may_come(self, waiting: Container[str], now: float) -> list[str]:
        """Tenants that have asked and wait for nothing now. No more than two of here, and two of
        elsewhere.
        """
        asked = (self._here, self._elsewhere)
        recent = ((it for it in _expected(tenants, now) if it not in waiting) for tenants in asked)
        return [tenant for some in recent for tenant in islice(some, 2)]


def _forget(asked: dict[str, _Asked], now: float) -> None:
    while asked and now - asked[oldest := next(iter(asked))].at > _LONGEST_SECONDS:
        del asked[oldest]


def _expected(asked: dict[str, _Asked], now: float) -> Iterator[str]:
    """Who is expected back, the last one first."""
    return (tenant for tenant, it in reversed(asked.items()) if now <= it.until)
