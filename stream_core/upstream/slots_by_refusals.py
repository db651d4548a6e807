"""How many calls a server answers at once that refuses what is more (429)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

# So often others tell until what they had running when a call was refused is known.
_TOLD_TIMES, _TOLD_SECONDS = 2, 3.0
# Of the last refusal in the estimate, once there were four.
_SHARE_OF_LAST = 0.25
# Of what was known, at most, where no other task asks: a quota of a minute may be used up, too.
_LOWERED_TO = 0.9


class SlotsByRefusals:
    """An estimate that each refusal corrects.

    It is as many calls as ran beside the refused ones: those of this task, and what others tell
    when they have told twice since. That is a second or two later, so they may have had a few more
    or less: the estimate is a mean, in which the last refusal counts a quarter. All tasks tell
    theirs, and each takes the mean of them. A task that is alone knows it at once, and lowers what
    was known by a tenth at a time.

    Args:
        known: what was known before the first refusal. None: nothing.
    """

    __slots__ = ("_before", "_here", "_refused_at", "_seen", "_untold", "slots")

    def __init__(self, known: float | None) -> None:
        self.slots = known or 0.0
        """The estimate."""
        self._seen = 0 if known is None else 1
        # The last refusal: what was known before, calls of this task beside it, when it was, and
        # how often others have still to tell.
        self._before, self._here, self._untold = self.slots, 0, 0
        self._refused_at = -inf

    @property
    def limit(self) -> int:
        """The most calls at once, one at least."""
        return max(1, round(self.slots))

    @property
    def settled(self) -> bool:
        """Whether it is known, and others have told of the first refusal."""
        return self._seen > 0 and not self.held

    @property
    def held(self) -> int:
        """The calls that this task keeps until others have told of the first refusal."""
        return self._here if self._untold and self._seen == 1 else 0

    def refused(self, here: int, elsewhere: int | None, began_at: float, now: float) -> None:
        """A call was refused.

        Args:
            here: calls of this task that run beside it.
            elsewhere: those of other tasks, as they have told. None: there are no others.
            began_at: when its own began.
            now: in seconds.
        """
        again = began_at > self._refused_at
        waits = self._untold > 0 and now - self._refused_at < _TOLD_SECONDS
        if again and waits and elsewhere is not None:
            return  # others have still to tell of the last one
        if again and waits and self._seen == 1:
            # Whether there are others isn't known yet, so this says no more than the first.
            self._here = max(here, int(_LOWERED_TO * self._here))
        elif again:
            self._before, self._here, self._refused_at = self.slots, here, now
            self._seen += 1
            self._untold = 0 if elsewhere is None and self._seen > 1 else _TOLD_TIMES
        elif here < self._here and (self._untold or elsewhere is None):
            self._here = here
        else:
            return
        if elsewhere is None:
            self.slots = max(float(self._here), _LOWERED_TO * self._before)
        else:
            self.slots = self._with(elsewhere)

    def told(self, elsewhere: int, found: Sequence[int]) -> None:
        """Other tasks have told how many calls run there, and their estimates."""
        if self._untold:
            slots = self._with(elsewhere)
            self.slots = max(slots, self.slots) if self._seen == 1 else slots
            self._untold -= 1
        if found and not self.held:
            self.slots = (self.slots + sum(found)) / (1 + len(found))

    def grow(self) -> None:
        """One call more: none was refused."""
        self.slots += 1

    def _with(self, elsewhere: int) -> float:
        """The estimate with the last refusal, if so many calls of other tasks ran beside it."""
        share = max(_SHARE_OF_LAST, 1 / self._seen)
        return self._before + share * (self._here + elsewhere - self._before)
