"""For whom a pause holds, that a model's server has asked for by refusing a call (429)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

# A refusal counts for so many of its pauses, of a second at least.
_COUNTED_PAUSES, _SHORTEST_SECONDS = 2.0, 1.0
# For so long a question is known that was refused, and so many of them.
_KNOWN_SECONDS, _MOST_KNOWN = 60.0, 256


class Question(NamedTuple):
    """Whose call was refused.

    Attributes:
        sender: who sent it.
        text: what was asked. The same question that is sent again has the same.
        call: which answer it was for.
    """

    sender: Hashable
    text: Hashable
    call: Hashable


class Held(Enum):
    """Whom a refusal holds back until its pause is over."""

    QUESTION = 0
    SENDER = 1
    EVERYBODY = 2


class RefusedQuestions:
    """Which questions a server has refused lately.

    One question may always be refused: it is larger than the quota, and no waiting mends that. So
    its refusal holds nobody else. When another question of its sender is refused, too, that is the
    sender's; when one of another sender is, the server has no room for anybody. A question that is
    sent again tells nothing new.

    Times are in seconds on one clock that never goes back.
    """

    __slots__ = ("_known", "_of_senders")

    def __init__(self) -> None:
        # By sender: the question, and until when its refusal counts.
        self._of_senders: dict[Hashable, tuple[Hashable, float]] = {}
        # By what was asked: for which answer, and when it was refused.
        self._known: OrderedDict[Hashable, tuple[Hashable, float]] = OrderedDict()

    def is_sent_again(self, question: Question, now: float) -> bool:
        """Whether the same was refused lately, for another answer."""
        call, at = self._known.get(question.text, (question.call, now))
        return call != question.call and now - at < _KNOWN_SECONDS

    def refused(self, question: Question, pause: float, now: float) -> Held:
        """Note a refusal. Returns whom it holds.

        Args:
            pause: the seconds until the server takes the call.
        """
        is_sent_again = self.is_sent_again(question, now)
        self._known[question.text] = question.call, now
        self._known.move_to_end(question.text)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        if is_sent_again:
            return Held.QUESTION
        counted = {who: it for who, it in self._of_senders.items() if it[1] > now}
        before = counted.pop(question.sender, None)
        until = now + max(_SHORTEST_SECONDS, pause) * _COUNTED_PAUSES
        self._of_senders = counted | {question.sender: (question.text, until)}
        if counted:
            return Held.EVERYBODY
        is_another = before is not None and before[0] != question.text
        return Held.SENDER if is_another else Held.QUESTION

    def taken(self) -> None:
        """A call was taken that began after the last refusal: the server has room for others."""
        self._of_senders.clear()
