"""How many answers a model's server generates at once: it queues the others in silence, or
refuses them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from heapq import nsmallest
from math import ceil, inf

from stream_core.fairness.calls_elsewhere import CallsElsewhere

# An engine's step takes as long as about so many tokens of a prompt.
_TOKENS_OF_A_STEP = 256
# Of calls that began beside few: first tokens remembered, fewest that tell what is usual, and how
# many of them are sooner than that.
_REMEMBERED, _FEWEST, _USUAL_SHARE = 64, 5, 0.9
# Late is so many times the usual, and so many seconds, or more times that. What is sooner than the
# last figure is in time, whatever is usual.
_LATE_TIMES, _LATE_SECONDS, _CLEARLY_LATE_TIMES, _IN_TIME_SECONDS = 2.0, 1.0, 6.0, 0.25
_LATE_ENOUGH = 4
# So many that come in time at the bound, for one call more.
_IN_TIME_FOR_ONE_MORE = 4
_PEAK_KEPT_SHARE = 0.98  # with each first token
# A bound that doesn't help is lowered to so much of it, and given up when it is the sixth in a row.
_LOWERED_TO, _UNHELPFUL_IN_A_ROW = 0.9, 6
_FEWEST_SLOTS = 8  # an engine with fewer isn't found out
# Calls of a task at once while no bound is known, before first tokens have shown that there is room
# for more.
_FIRST_CALLS, _MORE_CALLS = 8, 1
_TOGETHER_GROWS_TO = 1.25  # of all tasks' calls
_FORGOTTEN_SECONDS = 300.0
# Until other tasks have told what they had answered when a bound was found.
_TOLD_SECONDS = 3.0
_PART_FOR_NEWCOMERS, _PART_WHERE_REFUSED = 5, 10
# So often others tell until what they had running when a call was refused is known.
_TOLD_TIMES = 2


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The first token of an answer.

    Args:
        here, elsewhere: calls of this task and of others that ran when its own began.
        tokens, tokens_elsewhere: of its prompt and of others that were to be computed, here and at
            other tasks.
        seconds: from the beginning of its call.
    """

    here: int
    elsewhere: int
    tokens: int
    tokens_elsewhere: int
    seconds: float

    @property
    def beside(self) -> int:
        """Calls that ran when its own began."""
        return self.here + self.elsewhere

    @property
    def pace(self) -> float:
        """Seconds for each token, with those of a step."""
        return self.seconds / (_TOKENS_OF_A_STEP + self.tokens + self.tokens_elsewhere)


@dataclass(slots=True)
class _Refusal:
    """A call that was refused since there were too many (429).

    Args:
        here: calls of this task that ran beside it.
        known: the bound that was known before. Infinite: none was.
        untold: so often others have still to tell what they had running then.
    """

    here: int
    known: float
    untold: int = _TOLD_TIMES


class ServerSlots:
    """How many calls a server answers at once. What is more waits there, first come first served.

    An engine generates so many answers (vLLM's `--max-num-seqs`) and says nothing when it has more.
    First tokens tell: while all slots are taken they come when another answer ends. Four that are
    late, of calls that began beside as many as were lately answered at once, make that number the
    bound, eight at least; one that comes in time makes up for a late one. Late is six times what is
    usual for calls that began beside half as many, with as much to compute; of more than a second,
    twice that.

    A server that refuses what is too much (429) has as many slots as calls ran beside. Others may
    have told less than they had running: so it is raised by what they tell next, to what was known
    before at most, and a bound that was known is lowered by a tenth at a time. A tenth of such
    slots is for newcomers, and they may have more than this task's part, as long as any is free. It
    is less than elsewhere, since answers here are no sooner where there are fewer of them.

    A wrong bound doesn't last. It grows while first tokens come in time at it. One that was found
    before other tasks have told what they ask grows at once to what all of them have answered at
    the same time. Where first tokens are late whatever the bound is, the server has become slower:
    the bound and what was usual are forgotten. A bound is forgotten, too, five minutes after it was
    last found or lowered.

    While no bound is known a task may make eight calls, and one more with each first token that
    comes in time while there are half as many as there may be. So no long backlog gets to a server
    whose slots are not found yet.

    Several tasks that ask the same server tell each other what they have found and which calls
    they make. Each may make its part of them. While it makes more, one call begins for two that
    end, for who was given least. While no bound is known they divide a quarter more than all of
    them make, up to eight more: otherwise a task that grew first gives a tenant more than the
    others can.
    """

    __slots__ = (
        *("_free", "_in_time", "_late", "_learned_at", "_most", "_part", "_peak", "_refusal"),
        *("_shrinks_to", "_unhelpful", "_untold", "elsewhere", "limit"),
    )

    def __init__(self) -> None:
        self.limit: int | None = None
        """The most calls at once, of all tasks, as this one has found. None: it has not."""
        self.elsewhere = CallsElsewhere()
        """What other tasks ask of the server."""
        # Of so many slots, and how many are this task's.
        self._part: tuple[int, int] | None = None
        self._most = _FIRST_CALLS
        # The most that were answered at once, forgotten little by little.
        self._peak = self._learned_at = 0.0
        # First tokens of calls that began beside few.
        self._free: deque[FirstToken] = deque(maxlen=_REMEMBERED)
        # Those of which other tasks have still to tell what they asked meanwhile.
        self._untold: deque[FirstToken] = deque(maxlen=_REMEMBERED)
        self._late = self._in_time = self._unhelpful = 0
        # One more call may begin beside so many, though they are more than there may be.
        self._shrinks_to = inf
        # By which the bound was found. None: by late tokens.
        self._refusal: _Refusal | None = None

    @property
    def part(self) -> int | None:
        """The most calls of this task at once. None: no bound is known."""
        return None if self._found is None else self._part_of(self._found)

    def _part_of(self, slots: int) -> int:
        if self._part is None or self._part[0] != slots:
            self._part = slots, self.elsewhere.part(slots)
        return self._part[1]

    def learn(self, elsewhere: CallsElsewhere, now: float) -> None:
        """Note what other tasks ask of the server.

        What they have found is this task's, too, once they are asked no more and tell nothing.
        """
        known = self.elsewhere.slots
        if self.limit is None and known is not None and not elsewhere.wanted:
            self.limit, self._learned_at = known, now
        self.elsewhere, self._part = elsewhere, None
        if self.limit is not None and (refusal := self._unsettled) is not None:
            refusal.untold -= 1
            told = min(refusal.here + elsewhere.running, refusal.known)
            self.limit = max(self.limit, int(told))
        while self._untold:
            self._remember(self._untold.popleft())

    @property
    def _found(self) -> int | None:
        return self.elsewhere.slots if self.limit is None else self.limit

    @property
    def _unsettled(self) -> _Refusal | None:
        """The refusal by which the bound was found, while others have still to tell."""
        return self._refusal if self._refusal is not None and self._refusal.untold else None

    def has_room(self, running: int, answered: int = 0) -> bool:
        """Whether one more call of this task may have a slot. While there are too many, that is
        so once two of them have ended since the last one began.

        Args:
            running: its calls that have not ended.
            answered: those of them that have a token.
        """
        if self._refusal is not None and running + self.elsewhere.running < (self.limit or 0):
            return True
        room = self._room(running, answered)
        return running < room or room < running <= self._shrinks_to

    def begins(self, running: int, answered: int = 0) -> None:
        """Note that a call begins. As `has_room`."""
        # So while there are too many, one begins for two that end, and their number falls.
        self._shrinks_to = running - 1 if running > self._room(running, answered) else inf

    def crowded(self, running: int, answered: int = 0) -> bool:
        """Whether what is left is for who was given least: a fifth of the slots, or a tenth and one
        at least of those of a server that refuses. As `has_room`.
        """
        room = self._room(running, answered)
        if self._refusal is None:
            return running >= room - room // _PART_FOR_NEWCOMERS
        return running >= room - max(1, room // _PART_WHERE_REFUSED)

    def _room(self, running: int, answered: int) -> int:
        """The most calls of this task at once, whether a bound is known or not."""
        if self._found is not None:
            part = self._part_of(self._found)
            # Until others have told, it isn't known how many are too many.
            return part if self._unsettled is None else max(part, self._unsettled.here)
        # Those that were taken over from another task may be more than there may be otherwise.
        room = max(self._most, answered + _FIRST_CALLS)
        if not self.elsewhere.wanted:
            return room
        together = (running + self.elsewhere.running) * _TOGETHER_GROWS_TO
        # In eights: each other number of slots is divided anew.
        eights = _FIRST_CALLS * (int(together / _FIRST_CALLS) + 1)
        return min(room, max(_FIRST_CALLS, self._part_of(eights)))

    def first_token(self, token: FirstToken, answered: int, now: float) -> None:
        """Learn from a first token.

        Args:
            answered: calls of this task that run and have a token, with this one.
            now: in seconds.
        """
        answered += self.elsewhere.answered
        token = self._with_prompts_elsewhere(token)
        self._peak = max(answered, self._peak * _PEAK_KEPT_SHARE)
        since = now - self._learned_at
        if since >= _FORGOTTEN_SECONDS:
            self._forget()
        elif self.limit is not None and not self._unhelpful and since < _TOLD_SECONDS:
            self.limit = max(self.limit, ceil(self._peak))
        # A call that began beside fewer, or before the bound, says nothing of it.
        tells = token.beside + 1 >= self._peak and now - token.seconds >= self._learned_at
        late = self._is_late(token) if tells else None
        if self.elsewhere.tasks > 1 or self.elsewhere.wanted:
            self._untold.append(token)
        else:
            self._remember(token)
        if late is False:
            self._note_in_time(token)
        elif late and (self._found is None or token.beside < self._found):
            self._note_late(now)  # one beyond the bound has to wait

    def refused(self, here: int, began_at: float, now: float) -> None:
        """A call was refused since there were too many (429).

        Args:
            here: calls of this task that run beside it.
            began_at: when its own began.
            now: in seconds.
        """
        beside, known = here + self.elsewhere.running, inf
        if self._found is not None:
            if beside >= self._found:
                return  # it was one beyond the bound
            if began_at >= self._learned_at:
                known = self._found
                beside = max(beside, int(known * _LOWERED_TO))
            elif self._refusal is None or self._refusal.known < inf:
                return  # it began before the bound was lowered
        self.limit, self._refusal = max(1, beside), _Refusal(here, known)
        self._learned_at, self._late, self._in_time = now, 0, 0

    def _remember(self, token: FirstToken) -> None:
        """Keep it, if it began beside few calls, as far as others have told by now."""
        token = self._with_prompts_elsewhere(token)
        token = replace(token, elsewhere=max(token.elsewhere, self.elsewhere.running))
        if token.beside <= self._peak / 2 or len(self._free) < _FEWEST:
            self._free.append(token)

    def _with_prompts_elsewhere(self, token: FirstToken) -> FirstToken:
        # What others have told is a second old: it may be what they had just before or after.
        told = max(token.tokens_elsewhere, self.elsewhere.prompts)
        return replace(token, tokens_elsewhere=told)

    def _is_late(self, token: FirstToken) -> bool | None:
        """None: it isn't clear."""
        if token.seconds < _IN_TIME_SECONDS:
            return False
        usual = self._usual_pace()
        if usual is None or token.pace <= _LATE_TIMES * usual:
            return False
        clear = token.seconds > _LATE_SECONDS or token.pace > _CLEARLY_LATE_TIMES * usual
        return True if clear else None

    def _usual_pace(self) -> float | None:
        """Of calls that began beside few. None: too few first tokens have come."""
        few = [it for it in self._free if it.beside <= self._peak / 2]
        if len(few) < _FEWEST:
            few = nsmallest(_FEWEST, self._free, key=lambda it: it.beside)
        if len(few) < _FEWEST:
            return None
        return sorted(it.pace for it in few)[int(_USUAL_SHARE * (len(few) - 1))]

    def _note_late(self, now: float) -> None:
        self._late, self._in_time = self._late + 1, 0
        if self._late < _LATE_ENOUGH:
            return
        self._late, self._learned_at = 0, now
        self._unhelpful += self.limit is not None
        if self._unhelpful >= _UNHELPFUL_IN_A_ROW:
            self._forget()
            self._free.clear()
            return
        self._refusal = None
        slots = ceil(self._peak) if self.limit is None else int(self.limit * _LOWERED_TO)
        self.limit = max(_FEWEST_SLOTS, slots)

    def _forget(self) -> None:
        limit = self.limit or 0
        if self._refusal is None:
            self._most = max(self._most, 2 * limit)
        else:
            self._most = limit + _FIRST_CALLS  # what is too much is refused
        self.limit, self._refusal, self._unhelpful = None, None, 0

    def _note_in_time(self, token: FirstToken) -> None:
        self._late, self._unhelpful = max(0, self._late - 1), 0
        if self.limit is None:
            self._most += _MORE_CALLS * (token.here + 1 >= self._most / 2)
        elif token.beside + 1 >= self.limit:
            self._in_time += 1
            if self._in_time >= _IN_TIME_FOR_ONE_MORE:
                self.limit, self._in_time = self.limit + 1, 0
