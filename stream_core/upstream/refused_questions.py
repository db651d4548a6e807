"""Decides what pauses after a model's server throttled a call (429) and named a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

# A rejection counts for this number of its pauses, which last a second at least.
_COUNTED_PAUSES, _SHORTEST_SECONDS = 2.0, 1.0
# How long a rejected question is remembered, and how many of them.
_KNOWN_SECONDS, _MOST_KNOWN = 60.0, 256


class Question(NamedTuple):
    """The question of a rejected call.

    Attributes:
        sender: who sent it.
        text: identifies the question. A retry has the same.
        call: the answer that it was for.
    """

    sender: Hashable
    text: Hashable
    call: Hashable


class Held(Enum):
    """What a rejection pauses: only its question, all of its sender, or all calls."""

    QUESTION = 0
    SENDER = 1
    EVERYBODY = 2


class RefusedQuestions:
    """Remembers the questions that a server rejected lately.

    One question may be rejected for ever, since it is larger than the quota. So it pauses nothing
    else. If another question of its sender is rejected, too, the sender is over its quota; if one
    of another sender is, the server has no room for any. A retry changes nothing.

    Times are in seconds on a monotonic clock.
    """

    __slots__ = ("_known", "_of_senders")

    def __init__(self) -> None:
        # By sender: the question, and the time until which its rejection counts.
        self._of_senders: dict[Hashable, tuple[Hashable, float]] = {}
        # By the question's text: the answer that it was for, and the time of the rejection.
        self._known: OrderedDict[Hashable, tuple[Hashable, float]] = OrderedDict()

    def is_sent_again(self, question: Question, now: float) -> bool:
        """Whether the same question was rejected lately, for another answer."""
        call, at = self._known.get(question.text, (question.call, now))
        return call != question.call and now - at < _KNOWN_SECONDS

    def refused(self, question: Question, pause: float, now: float) -> Held:
        """Note a rejection. Returns what it pauses.

        Args:
            pause: the seconds until the server accepts the call.
        """
        is_sent_again = self.is_sent_again(question, now)
        self._known[question.text] = question.call, now
        self._known.move_to_end(question.text)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        if is_sent_again:
            return Held.QUESTION
        counted = {key: entry for key, entry in self._of_senders.items() if entry[1] > now}
        before = counted.pop(question.sender, None)
        until = now + max(_SHORTEST_SECONDS, pause) * _COUNTED_PAUSES
        self._of_senders = counted | {question.sender: (question.text, until)}
        if counted:
            return Held.EVERYBODY
        is_another = before is not None and before[0] != question.text
        return Held.SENDER if is_another else Held.QUESTION

    def taken(self) -> None:
        """Note an accepted call that began after the last rejection: the server has room again."""
        self._of_senders.clear()
