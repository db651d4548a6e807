"""What pauses after an upstream rejected a call (429), and for how long."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from enum import Enum
from math import inf
from typing import NamedTuple

# The first pause where the upstream names no time, and the longest.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 8.0
# Consecutive rejections for which a shorter Retry-After is followed. After them pauses double.
_SHORT_PAUSES_FOLLOWED = 3
# The pause while calls of other nodes run.
_OTHER_NODES_PAUSE_SECONDS = 0.05
# Added to each pause, since a call at the very moment that the upstream names may be early.
_MARGIN = 1.1
# A rejection counts for twice its pause. A pause counts as one second at least.
_COUNTED_PAUSES, _SHORTEST_SECONDS = 2.0, 1.0
# The seconds for which a rejected question is remembered, and the most of them.
_KNOWN_SECONDS, _MOST_KNOWN = 60.0, 256


class RejectedCall(NamedTuple):
    """The question of a rejected call.

    Attributes:
        sender: its sender.
        text: identifies the question. A retry has the same.
        call: the answer that it is for.
    """

    sender: Hashable
    text: Hashable
    call: Hashable


class PauseScope(Enum):
    """What a rejection pauses: its question, all calls of its sender, or all calls."""

    QUESTION = 0
    SENDER = 1
    ALL = 2


class Backoff(NamedTuple):
    """The effect of a rejection: what is paused, and its seconds."""

    scope: PauseScope
    seconds: float


class RejectionBackoff:
    """Pauses calls after rejections: for the time that the upstream names, or with doubling pauses.

    One question may be rejected for ever, if it is larger than the quota. So a rejection with a
    named time pauses only its question. If another question of its sender is rejected, too, the
    sender is over its quota; if one of another sender is, the upstream has no room for any. A retry
    of the same question changes nothing.

    Without a named time, while other calls run, the upstream is at its concurrency limit: the next
    call starts when another one ends, without a pause. Each further rejection without an accepted
    call in between pauses all calls, with a doubling pause.

    Times are in seconds on a monotonic clock.
    """

    __slots__ = (
        *("_known", "_paused_until", "_rejected_at", "_rejected_of_senders", "_senders"),
        *("in_a_row", "rejecting_since"),
    )

    def __init__(self) -> None:
        self._paused_until = self._rejected_at = -inf
        self._senders: dict[Hashable, float] = {}  # the end of the pause, by sender
        # By sender: the question, and the time until which its rejection counts.
        self._rejected_of_senders: dict[Hashable, tuple[Hashable, float]] = {}
        # By the question's text: the answer that it was for, and the time of the rejection.
        self._known: OrderedDict[Hashable, tuple[Hashable, float]] = OrderedDict()
        self.in_a_row = 0
        """Consecutive rejections of calls that started after the one before."""
        self.rejecting_since = inf
        """Since when the upstream has rejected every call, in seconds. inf: it accepts calls."""

    def paused_for(self, now: float) -> float:
        """The seconds for which no call may start. 0: there is no pause."""
        return max(0.0, self._paused_until - now)

    def sender_paused_until(self, sender: Hashable) -> float:
        """The time before which no call of this sender may start. -inf: one may."""
        return self._senders.get(sender, -inf)

    def pause(self, now: float, seconds: float) -> None:
        """Pause all calls. A longer pause stays."""
        self._paused_until = max(self._paused_until, now + seconds)

    def record_acceptance(self, began_at: float) -> None:
        """Record that a call has its first token, or was answered.

        Args:
            began_at: when the call started.
        """
        self.rejecting_since = inf
        if began_at >= self._rejected_at:
            self.in_a_row = 0
            self._rejected_of_senders.clear()

    def record_rejection(
        self,
        now: float,
        began_at: float,
        retry_after: float | None,
        question: RejectedCall | None = None,
        *,
        concurrent: bool = False,
        on_other_nodes: bool = False,
    ) -> Backoff:
        """Record a rejection, and pause what it concerns.

        Args:
            began_at: when the call started.
            retry_after: when the upstream accepts calls again, in seconds. None: it names no time.
            question: the question of the call. None: unknown, so that all calls are paused.
            concurrent: whether other calls run here.
            on_other_nodes: whether calls of other nodes run.
        """
        if began_at >= self._rejected_at:  # calls that ran together are rejected together
            self.in_a_row += 1
        self._rejected_at = now
        self.rejecting_since = min(self.rejecting_since, now)
        names_time = retry_after is not None and retry_after >= _FIRST_PAUSE_SECONDS
        if not names_time and (retry_after is None or self.in_a_row > _SHORT_PAUSES_FOLLOWED):
            own_pause = self._doubling_pause(concurrent, on_other_nodes)
            retry_after = max(retry_after or 0.0, own_pause)
        pause = (retry_after or 0.0) * _MARGIN
        scope = self._scope(question, pause, now, at_limit=concurrent and not names_time)
        if scope is PauseScope.ALL:
            self.pause(now, pause)
        elif scope is PauseScope.SENDER and question is not None:
            self._senders = {key: until for key, until in self._senders.items() if until > now}
            self._senders[question.sender] = now + pause
        return Backoff(scope, pause)

    def _doubling_pause(self, concurrent: bool, on_other_nodes: bool) -> float:
        """In seconds. 0 at the first rejection beside other calls: the end of one makes room."""
        doublings = self.in_a_row - (2 if concurrent else 1)
        if doublings < 0:
            return 0.0
        if on_other_nodes:
            return _OTHER_NODES_PAUSE_SECONDS  # the upstream answers other nodes: room comes soon
        return float(min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(doublings, 8)))

    def _scope(
        self, question: RejectedCall | None, pause: float, now: float, *, at_limit: bool
    ) -> PauseScope:
        if question is None:
            return PauseScope.ALL
        call, at = self._known.get(question.text, (question.call, now))
        is_retry = call != question.call and now - at < _KNOWN_SECONDS
        self._known[question.text] = question.call, now
        self._known.move_to_end(question.text)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        if is_retry:
            return PauseScope.QUESTION
        counted = {key: entry for key, entry in self._rejected_of_senders.items() if entry[1] > now}
        before = counted.pop(question.sender, None)
        until = now + max(_SHORTEST_SECONDS, pause) * _COUNTED_PAUSES
        self._rejected_of_senders = counted | {question.sender: (question.text, until)}
        if counted or at_limit:
            return PauseScope.ALL
        is_another = before is not None and before[0] != question.text
        return PauseScope.SENDER if is_another else PauseScope.QUESTION
