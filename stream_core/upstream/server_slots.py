"""How many answers a model's server generates at once: it queues the others in silence, or
refuses them.
"""

from __future__ import annotations

from math import ceil, inf

from evenflow.stream_core.upstream.calls_elsewhere import CallsElsewhere
from evenflow.stream_core.upstream.division import Division
from evenflow.stream_core.upstream.first_tokens import FirstToken, UsualFirstTokens
from evenflow.stream_core.upstream.slots_by_refusals import SlotsByRefusals

_LATE_ENOUGH = 4
# So many that come in time at the bound, for one call more.
_IN_TIME_FOR_ONE_MORE = 4
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


class ServerSlots:
    """How many calls a server answers at once. What is more waits there, first come first served.

    An engine generates so many answers (vLLM's `--max-num-seqs`) and says nothing when it has more.
    First tokens tell: while all slots are taken they come when another answer ends. Four that are
    late, of calls that began beside as many as were lately answered at once, make that number the
    bound, eight at least; one that comes in time makes up for a late one.

    A server that refuses what is too much (429) tells its bound by that (`SlotsByRefusals`). A
    tenth of such slots, in all tasks together, is for newcomers: it is less than elsewhere, since
    answers here are no sooner where there are fewer of them. A tenant that wants less than its
    share of the slots may have one though this task's part is taken. What others have told is a
    second old, so that is so though all slots and a tenth more seem to be taken.

    A wrong bound doesn't last. It grows by one with four first tokens that come in time at it, or
    as many as there are slots where what is more is refused. One of late tokens that was found
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
        *("_divided", "_first_tokens", "_in_time", "_late", "_learned_at", "_most", "_refusals"),
        *("_shrinks_to", "_unhelpful", "elsewhere", "limit"),
    )

    def __init__(self) -> None:
        self.limit: int | None = None
        """The most calls at once, of all tasks, as this one has found. None: it has not."""
        self.elsewhere = CallsElsewhere()
        """What other tasks ask of the server."""
        # Of so many slots.
        self._divided: tuple[int, Division] | None = None
        self._most = _FIRST_CALLS
        self._first_tokens = UsualFirstTokens()
        self._learned_at = 0.0
        self._late = self._in_time = self._unhelpful = 0
        # One more call may begin beside so many, though they are more than there may be.
        self._shrinks_to = inf
        # By which the bound was found. None: by late tokens.
        self._refusals: SlotsByRefusals | None = None

    @property
    def part(self) -> int | None:
        """The most calls of this task at once. None: no bound is known."""
        return None if self._found is None else self._divide(self._found).part

    def most_of(self, tenant: str) -> int | None:
        """The most calls of a tenant at this task while another one waits for its own, where what
        is more is refused: its part, and one more. None: there is no bound, or nobody has told of
        the tenant.
        """
        if self._found is None or self._refusals is None:
            return None
        part = self._divide(self._found).of_tenants.get(tenant)
        return None if part is None else ceil(part) + 1

    def _divide(self, slots: int) -> Division:
        if self._divided is None or self._divided[0] != slots:
            self._divided = slots, self.elsewhere.divide(slots)
        return self._divided[1]

    def learn(self, elsewhere: CallsElsewhere, now: float) -> None:
        """Note what other tasks ask of the server.

        What they have found is this task's, too, once they are asked no more and tell nothing.
        """
        known = self.elsewhere.slots
        if self.limit is None and known is not None and not elsewhere.wanted:
            self.limit, self._learned_at = known, now
        self.elsewhere, self._divided = elsewhere, None
        if self._refusals is not None:
            self._refusals.told(elsewhere.running, elsewhere.found)
            self.limit = self._refusals.limit
        self._first_tokens.told(elsewhere)

    @property
    def told(self) -> int | None:
        """The bound that other tasks are told."""
        return None if self._refusals is not None and self._refusals.held else self.limit

    @property
    def _found(self) -> int | None:
        return self.elsewhere.slots if self.limit is None else self.limit

    def has_room(self, running: int, answered: int = 0, tenant: str | None = None) -> bool:
        """Whether one more call of this task may have a slot. While there are too many, that is
        so once two of them have ended since the last one began.

        Args:
            running: its calls that have not ended.
            answered: those of them that have a token.
            tenant: whose call it is. None: anybody's.
        """
        if tenant is not None and self._is_free_for(tenant, running):
            return True
        room = self._room(running, answered)
        return running < room or room < running <= self._shrinks_to

    def _is_free_for(self, tenant: str, running: int) -> bool:
        """Whether a server that refuses may have a slot for a tenant that wants little."""
        slots = self._found
        if slots is None or self._refusals is None or not self.elsewhere.wanted:
            return False
        if running + self.elsewhere.running >= slots + self._for_newcomers(slots):
            return False
        return tenant not in self._divide(slots).want_much

    def begins(self, running: int, answered: int = 0) -> None:
        """Note that a call begins. As `has_room`."""
        # So while there are too many, one begins for two that end, and their number falls.
        self._shrinks_to = running - 1 if running > self._room(running, answered) else inf

    def crowded(self, running: int, answered: int = 0) -> bool:
        """Whether what is left is for who was given least: a fifth of this task's slots, or its
        part of a tenth of those of a server that refuses. As `has_room`.
        """
        room = self._room(running, answered)
        if self._refusals is None or self._found is None:
            return running >= room - room // _PART_FOR_NEWCOMERS
        return running >= room - self.elsewhere.equal_part(self._for_newcomers(self._found))

    def _for_newcomers(self, slots: int) -> int:
        return max(1, slots // _PART_WHERE_REFUSED)

    def _room(self, running: int, answered: int) -> int:
        """The most calls of this task at once, whether a bound is known or not."""
        if self._found is not None:
            part = self._divide(self._found).part
            return part if self._refusals is None else max(part, self._refusals.held)
        # Those that were taken over from another task may be more than there may be otherwise.
        room = max(self._most, answered + _FIRST_CALLS)
        if not self.elsewhere.wanted:
            return room
        together = (running + self.elsewhere.running) * _TOGETHER_GROWS_TO
        # In eights: each other number of slots is divided anew.
        eights = _FIRST_CALLS * (int(together / _FIRST_CALLS) + 1)
        return min(room, max(_FIRST_CALLS, self._divide(eights).part))

    def first_token(self, token: FirstToken, answered: int, now: float) -> None:
        """Learn from a first token.

        Args:
            answered: calls of this task that run and have a token, with this one.
            now: in seconds.
        """
        first_tokens, since = self._first_tokens, now - self._learned_at
        token, late = first_tokens.judge(token, answered + self.elsewhere.answered, self.elsewhere)
        if since >= _FORGOTTEN_SECONDS:
            self._forget()
        elif since < _TOLD_SECONDS and self._is_by_late_tokens and not self._unhelpful:
            self.limit = max(self.limit or 0, ceil(first_tokens.peak))
        if token.beside + 1 < first_tokens.peak or now - token.seconds < self._learned_at:
            return  # a call that began beside fewer, or before the bound, says nothing of it
        if late is False:
            self._note_in_time(token)
        elif late and (self._found is None or token.beside < self._found):
            self._note_late(now)  # one beyond the bound has to wait

    @property
    def _is_by_late_tokens(self) -> bool:
        return self.limit is not None and self._refusals is None

    def refused(self, here: int, began_at: float, now: float) -> None:
        """A call was refused since there were too many (429).

        Args:
            here: calls of this task that run beside it.
            began_at: when its own began.
            now: in seconds.
        """
        if self._refusals is None:
            self._refusals = SlotsByRefusals(self._found)
        if self.elsewhere.tasks > 1 and self._refusals.settled:
            return  # others have not told yet
        alone = self.elsewhere.tasks == 1 and not self.elsewhere.wanted
        elsewhere = None if alone else self.elsewhere.running
        self._refusals.refused(here, elsewhere, began_at, now)
        self.limit = self._refusals.limit
        self._learned_at, self._late, self._in_time = now, 0, 0

    def _note_late(self, now: float) -> None:
        self._late, self._in_time = self._late + 1, 0
        if self._late < _LATE_ENOUGH:
            return
        self._late, self._learned_at = 0, now
        self._unhelpful += self.limit is not None
        if self._unhelpful >= _UNHELPFUL_IN_A_ROW:
            self._forget()
            self._first_tokens.forget()
            return
        self._refusals = None
        lowered = self._first_tokens.peak if self.limit is None else int(self.limit * _LOWERED_TO)
        self.limit = max(_FEWEST_SLOTS, ceil(lowered))

    def _forget(self) -> None:
        limit = self.limit or 0
        if self._refusals is None:
            self._most = max(self._most, 2 * limit)
        else:
            self._most = limit + _FIRST_CALLS  # what is too much is refused
        self.limit, self._refusals, self._unhelpful = None, None, 0

    def _note_in_time(self, token: FirstToken) -> None:
        self._late, self._unhelpful = max(0, self._late - 1), 0
        if self.limit is None:
            self._most += _MORE_CALLS * (token.here + 1 >= self._most / 2)
        elif token.beside + 1 >= self.limit:
            self._in_time += 1
            if self._in_time >= self._enough_in_time(self.limit):
                self._grow(self.limit)

    def _enough_in_time(self, limit: int) -> float:
        """First tokens in time at the bound, for one call more."""
        if self._refusals is None:
            return _IN_TIME_FOR_ONE_MORE
        return limit / max(1, len(self.elsewhere.wanted))

    def _grow(self, limit: int) -> None:
        self._in_time = 0
        if self._refusals is None:
            self.limit = limit + 1
        else:
            self._refusals.grow()
            self.limit = self._refusals.limit
