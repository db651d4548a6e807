"""How many calls a model's server takes at once, as its throttling teaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from math import inf
from typing import NamedTuple

from evenflow.stream_core.upstream.refused_questions import Held, Question, RefusedQuestions

# The first pause where the server doesn't say how long, and the longest.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 8.0
# Consecutive refusals for which a shorter Retry-After is followed. After them pauses double.
_SHORT_PAUSES_FOLLOWED = 3
# Where other tasks have calls that run.
_BESIDE_OTHERS_SECONDS = 0.05
# Nobody comes back at the very moment that the server names.
_LATE_SHARE = 1.1
# A server that has not throttled for so long is asked without a ceiling again.
_FORGOTTEN_SECONDS = 600.0


class Throttle(NamedTuple):
    """The effect of a throttled call: what is paused, and for how many seconds."""

    held: Held
    seconds: float


class AdaptiveCeiling:
    """The most calls of one model at once. There is none until its server throttles (429).

    Then it is the number of the other running calls. If the server names a time, that question is
    paused until then, and others as `RefusedQuestions` decides. If it names none, and other calls
    run, it has no room for one more: the next call begins when another one ends. Each further
    rejection without a first token pauses all calls, with a doubling pause. The ceiling grows by
    one after as many answered calls as it allows: additive increase, as in AIMD. Each task finds
    its own.

    Times are in seconds on one clock that never goes back.
    """

    __slots__ = ("_answered", "_held", "_in_a_row", "_limit", "_opens_at", "_refused", "_running",
                 "_running_of", "_throttled_at", "refuses_since")  # fmt: skip

    def __init__(self) -> None:
        self._limit: int | None = None
        self._running = 0
        self._running_of = Counter[Hashable]()
        self._answered = 0
        self._opens_at = self._throttled_at = -inf
        self._held: dict[Hashable, float] = {}  # the end of the pause, by sender
        self._refused = RefusedQuestions()
        self._in_a_row = 0  # calls that were refused though they began after the last refusal
        self.refuses_since = inf
        """Since when it has refused every call, in seconds. inf: it has taken the last one."""

    @property
    def limit(self) -> int | None:
        """The most calls at once. None: no bound is known."""
        return self._limit

    @property
    def running(self) -> int:
        """How many calls run."""
        return self._running

    def has_room(self, now: float) -> bool:
        """Whether one more call may begin."""
        self._forget(now)
        return now >= self._opens_at and (self._limit is None or self._running < self._limit)

    def opens_in(self, now: float) -> float:
        """How long nothing may begin, because the server has said so. 0: it isn't so."""
        return max(0.0, self._opens_at - now)

    def held_until(self, sender: Hashable) -> float:
        """The time before which no call of this sender may begin. -inf: one may."""
        return self._held.get(sender, -inf)

    def begin(self, sender: Hashable | None = None) -> None:
        """A call of this sender begins."""
        self._running += 1
        self._running_of[sender] += 1

    def end(self, sender: Hashable | None = None) -> None:
        """A call of this sender has ended, however."""
        self._running -= 1
        self._running_of[sender] -= 1
        if not self._running_of[sender]:
            del self._running_of[sender]

    def taken(self, began_at: float) -> None:
        """A call has its first token, or was answered.

        Args:
            began_at: when the call began.
        """
        self.refuses_since = inf
        if began_at >= self._throttled_at:
            self._in_a_row = 0
            self._refused.taken()

    def answered(self) -> None:
        """A call was answered to its end."""
        if self._limit is None:
            return
        self._answered += 1
        if self._answered >= self._limit:
            self._answered = 0
            self._limit += 1

    def throttled(
        self,
        now: float,
        began_at: float,
        retry_after: float | None,
        elsewhere: int = 0,
        question: Question | None = None,
    ) -> Throttle:
        """One of the calls that run was refused for want of quota.

        Args:
            began_at: when the call began.
            retry_after: when the server takes calls again, in seconds. None: it doesn't say.
            elsewhere: calls of other tasks that run, as far as they tell.
            question: the question of the call. None: unknown, so that all calls are paused.
        """
        others = self._running - 1
        if began_at >= self._throttled_at:  # calls that ran together are refused together
            self._in_a_row += 1
        self._throttled_at = now
        self.refuses_since = min(self.refuses_since, now)
        names_time = retry_after is not None and retry_after >= _FIRST_PAUSE_SECONDS
        is_short = not names_time and self._in_a_row > _SHORT_PAUSES_FOLLOWED
        if retry_after is None or is_short:
            retry_after = max(retry_after or 0.0, self._usual_pause(others, elsewhere))
        pause = retry_after * _LATE_SHARE
        held = self._scope(question, pause, now, at_once=bool(others) and not names_time)
        if held is Held.EVERYBODY or (held is Held.SENDER and self._runs_alone(question)):
            self._answered = 0
            self._limit = max(1, others if self._limit is None else min(others, self._limit))
        if held is Held.EVERYBODY:
            self.pause(now, pause)
        elif held is Held.SENDER and question is not None:
            self._held = {key: until for key, until in self._held.items() if until > now}
            self._held[question.sender] = now + pause
        return Throttle(held, pause)

    def _scope(self, question: Question | None, pause: float, now: float, *, at_once: bool) -> Held:
        """What a rejection pauses. `at_once`: the call exceeded the server's concurrency limit."""
        if question is None:
            return Held.EVERYBODY
        is_sent_again = self._refused.is_sent_again(question, now)
        held = self._refused.refused(question, pause, now)
        return Held.EVERYBODY if at_once and not is_sent_again else held

    def _runs_alone(self, question: Question | None) -> bool:
        """Whether other calls run, and all of them are this sender's."""
        return question is not None and self._running_of[question.sender] == self._running > 1

    def _usual_pause(self, others: int, elsewhere: int) -> float:
        """In seconds. The first refusal needs none, if the end of another call makes room."""
        doublings = self._in_a_row - (2 if others else 1)
        if doublings < 0:
            return 0.0
        if elsewhere:
            return _BESIDE_OTHERS_SECONDS  # the server answers, and they will leave room
        return float(min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(doublings, 8)))

    def pause(self, now: float, seconds: float) -> None:
        """Begin nothing for so long."""
        self._opens_at = max(self._opens_at, now + seconds)

    def _forget(self, now: float) -> None:
        if self._limit is not None and now - self._throttled_at >= _FORGOTTEN_SECONDS:
            self._limit = None
