"""Who has asked lately, and so may ask again."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

# Who pauses for so many of their longest pauses is not expected back, and never after the last.
_PAUSES, _SHORTEST_SECONDS, _LONGEST_SECONDS = 3.0, 13.0, 60.0
# Of the longest pause, what is left of it after each question.
_PAUSE_KEPT_SHARE = 0.9
# Other tasks tell of theirs each second.
_TOLD_SECONDS = 5.0
# So that what others are told stays short.
_MOST_TOLD = 10


class _Asked(NamedTuple):
    """`questions`: to this task. `at`, `pause`: of questions to all of them, as far as is known."""

    at: float
    pause: float
    until: float
    questions: int = 0

    def again(self, now: float, times: int) -> _Asked:
        """The same after so many more questions to this task or others."""
        if self.pause == _LONGEST_SECONDS:  # of the first question none is known
            pause = now - self.at
        else:
            pause = max(now - self.at, _PAUSE_KEPT_SHARE**times * self.pause)
        expected = min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, _PAUSES * pause))
        return _Asked(now, pause, now + expected, self.questions)


class RecentTenants:
    """The tenants that are expected back, here or at other tasks.

    Slots are kept free for them. So who has asked each second and asks no more is expected for 13
    seconds, and who has asked once, or twice a minute, for a minute. Questions to other tasks
    count, too: of many tasks each is asked seldom.
    """

    def __init__(self) -> None:
        # The last one is last.
        self._here: dict[str, _Asked] = {}
        self._elsewhere: dict[str, _Asked] = {}

    def asks(self, tenant: str, now: float) -> None:
        """A tenant asks something here."""
        last = self._here.pop(tenant, None)
        if last is None:
            recent = _Asked(now, _LONGEST_SECONDS, now + _LONGEST_SECONDS)
        else:
            recent = last.again(now, times=1)
        self._here[tenant] = recent._replace(questions=recent.questions + 1)
        self._elsewhere.pop(tenant, None)
        _forget(self._here, now)

    def ask_elsewhere(self, questions: Mapping[str, int], now: float) -> None:
        """Other tasks expect tenants back, which have asked so many questions there since."""
        for tenant, times in questions.items():
            if tenant not in self._here:
                self._elsewhere.pop(tenant, None)
                self._elsewhere[tenant] = _Asked(now, 0.0, now + _TOLD_SECONDS)
            elif times:
                self._here[tenant] = self._here.pop(tenant).again(now, times)
        _forget(self._elsewhere, now)

    def here(self, now: float) -> dict[str, int]:
        """The last ten tenants that are expected back, and how many questions they asked here."""
        last = islice(_expected(self._here, now), _MOST_TOLD)
        return {tenant: self._here[tenant].questions for tenant in last}

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
        groups = (self._here, self._elsewhere)
        recent = ((it for it in _expected(tenants, now) if it not in waiting) for tenants in groups)
        return [tenant for some in recent for tenant in islice(some, 2)]


def _forget(tenants: dict[str, _Asked], now: float) -> None:
    while tenants and now - tenants[oldest := next(iter(tenants))].at > _LONGEST_SECONDS:
        del tenants[oldest]


def _expected(tenants: dict[str, _Asked], now: float) -> Iterator[str]:
    """Who is expected back, the last one first."""
    return (tenant for tenant, it in reversed(tenants.items()) if now <= it.until)
