"""How many answers a model's server generates at once, where it queues the others in silence."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil

# An engine's step takes as long as about so many tokens of a prompt.
_TOKENS_OF_A_STEP = 256
# Of calls that began beside few: first tokens remembered, fewest that tell what is usual, and how
# many of them are sooner than that.
_REMEMBERED, _FEWEST, _USUAL_SHARE = 64, 5, 0.9
# Late is so many times the usual, and so many seconds. What is sooner than the last figure is in
# time, whatever is usual.
_LATE_TIMES, _LATE_SECONDS, _IN_TIME_SECONDS = 2.0, 1.0, 0.25
_LATE_IN_A_ROW = 4
# So many that come in time at the bound, for one call more.
_IN_TIME_FOR_ONE_MORE = 4
_PEAK_KEPT_SHARE = 0.98  # with each first token
# A bound that doesn't help is lowered to so much of it, and given up when it is the sixth in a row.
_LOWERED_TO, _UNHELPFUL_IN_A_ROW = 0.9, 6
_FEWEST_SLOTS = 8  # an engine with fewer isn't found out
_FORGOTTEN_SECONDS = 300.0
_PART_FOR_NEWCOMERS = 5


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The first token of an answer.

    Args:
        beside: calls that ran when its own began.
        tokens: of its prompt.
        seconds: from the beginning of its call.
    """

    beside: int
    tokens: int
    seconds: float

    @property
    def pace(self) -> float:
        """Seconds for each token, with those of a step."""
        return self.seconds / (_TOKENS_OF_A_STEP + self.tokens)


class ServerSlots:
    """How many calls a server answers at once. What is more waits there, first come first served.

    An engine generates so many answers (vLLM's `--max-num-seqs`) and says nothing when it has more.
    First tokens tell: while all slots are taken they come when another answer ends. Four in a row
    that are late, of calls that began beside as many as were lately answered at once, make that
    number the bound, eight at least. Late is more than a second, and more than twice what is usual
    for calls that began beside half as many, with prompts as long.

    A wrong bound doesn't last. It grows while first tokens come in time at it. Where they are late
    whatever the bound is, the server has become slower: the bound and what was usual are forgotten.
    A bound is forgotten, too, five minutes after it was last found or lowered.
    """

    __slots__ = ("_free", "_in_time", "_late", "_learned_at", "_peak", "_unhelpful", "limit")

    def __init__(self) -> None:
        self.limit: int | None = None
        """The most calls at once. None: no bound is known."""
        # The most that were answered at once, forgotten little by little.
        self._peak = self._learned_at = 0.0
        # First tokens of calls that began beside few.
        self._free: deque[FirstToken] = deque(maxlen=_REMEMBERED)
        self._late = self._in_time = self._unhelpful = 0

    def has_room(self, running: int) -> bool:
        """Whether one more call has a slot."""
        return self.limit is None or running < self.limit

    def crowded(self, running: int) -> bool:
        """Whether what is left, a fifth of the slots, is for who was given least."""
        limit = self.limit
        return limit is not None and running >= limit - limit // _PART_FOR_NEWCOMERS

    def first_token(self, token: FirstToken, answered: int, now: float) -> None:
        """Learn from a first token.

        Args:
            answered: calls that run and have a token, with this one.
            now: in seconds.
        """
        self._peak = max(answered, self._peak * _PEAK_KEPT_SHARE)
        if now - self._learned_at >= _FORGOTTEN_SECONDS:
            self.limit = None
        # A call that began beside fewer, or before the bound, says nothing of it.
        tells = token.beside + 1 >= self._peak and now - token.seconds >= self._learned_at
        late = self._is_late(token) if tells else None
        if token.beside <= self._peak / 2 or len(self._free) < _FEWEST:
            self._free.append(token)
        if late is False:
            self._note_in_time(token)
        elif late and self.has_room(token.beside):  # one beyond the bound has to wait
            self._note_late(now)

    def _is_late(self, token: FirstToken) -> bool | None:
        """None: it isn't clear, or too few first tokens are known that came beside few."""
        if token.seconds < _IN_TIME_SECONDS:
            return False
        paces = sorted(it.pace for it in self._free if it.beside <= self._peak / 2)
        if len(paces) < _FEWEST:
            return None
        if token.pace <= _LATE_TIMES * paces[int(_USUAL_SHARE * (len(paces) - 1))]:
            return False
        return True if token.seconds > _LATE_SECONDS else None

    def _note_late(self, now: float) -> None:
        self._late, self._in_time = self._late + 1, 0
        if self._late < _LATE_IN_A_ROW:
            return
        self._late, self._learned_at = 0, now
        self._unhelpful += self.limit is not None
        if self._unhelpful >= _UNHELPFUL_IN_A_ROW:
            self.limit, self._unhelpful = None, 0
            self._free.clear()
            return
        slots = ceil(self._peak) if self.limit is None else int(self.limit * _LOWERED_TO)
        self.limit = max(_FEWEST_SLOTS, slots)

    def _note_in_time(self, token: FirstToken) -> None:
        self._late = self._unhelpful = 0
        if self.limit is not None and token.beside + 1 >= self.limit:
            self._in_time += 1
            if self._in_time >= _IN_TIME_FOR_ONE_MORE:
                self.limit, self._in_time = self.limit + 1, 0
