"""When first tokens are late: as long as an engine has a free slot they come as they usually do."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from heapq import nsmallest

from evenflow.stream_core.upstream.calls_elsewhere import CallsElsewhere

# An engine's step takes as long as about so many tokens of a prompt.
_TOKENS_OF_A_STEP = 256
# Of calls that began beside few: first tokens remembered, fewest that tell what is usual, and how
# many of them are sooner than that.
_REMEMBERED, _FEWEST, _USUAL_SHARE = 64, 5, 0.9
# Late is so many times the usual, and so many seconds, or more times that. What is sooner than the
# last figure is in time, whatever is usual.
_LATE_TIMES, _LATE_SECONDS, _CLEARLY_LATE_TIMES, _IN_TIME_SECONDS = 2.0, 1.0, 6.0, 0.25
_PEAK_KEPT_SHARE = 0.98  # with each first token


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


class UsualFirstTokens:
    """Learns when first tokens usually come, from calls that began beside few.

    Usual is the 90th percentile of those that began beside half as many as were lately answered at
    once, by the tokens of prompts that were to be computed. Late is six times that, or twice and a
    second.
    """

    __slots__ = ("_free", "_untold", "peak")

    def __init__(self) -> None:
        self.peak = 0.0
        """The most calls that were answered at once, forgotten little by little."""
        # First tokens of calls that began beside few.
        self._free: deque[FirstToken] = deque(maxlen=_REMEMBERED)
        # Those of which other tasks have still to tell what they asked meanwhile.
        self._untold: deque[FirstToken] = deque(maxlen=_REMEMBERED)

    def judge(
        self, token: FirstToken, answered: int, elsewhere: CallsElsewhere
    ) -> tuple[FirstToken, bool | None]:
        """Learn from a first token.

        Args:
            answered: calls of all tasks that run and have a token, with this one.
            elsewhere: what others have told.

        Returns:
            It, with what others have told, and whether it is late. None: it isn't clear.
        """
        token = _with_prompts_elsewhere(token, elsewhere)
        self.peak = max(answered, self.peak * _PEAK_KEPT_SHARE)
        late = self._is_late(token)
        if elsewhere.tasks > 1 or elsewhere.wanted:
            self._untold.append(token)
        else:
            self._remember(token, elsewhere)
        return token, late

    def told(self, elsewhere: CallsElsewhere) -> None:
        """Other tasks have told what they ask."""
        while self._untold:
            self._remember(self._untold.popleft(), elsewhere)

    def forget(self) -> None:
        """Forget what was usual."""
        self._free.clear()

    def _remember(self, token: FirstToken, elsewhere: CallsElsewhere) -> None:
        """Keep it, if it began beside few calls, as far as others have told by now."""
        token = _with_prompts_elsewhere(token, elsewhere)
        token = replace(token, elsewhere=max(token.elsewhere, elsewhere.running))
        if token.beside <= self.peak / 2 or len(self._free) < _FEWEST:
            self._free.append(token)

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
        few = [it for it in self._free if it.beside <= self.peak / 2]
        if len(few) < _FEWEST:
            few = nsmallest(_FEWEST, self._free, key=lambda it: it.beside)
        if len(few) < _FEWEST:
            return None
        return sorted(it.pace for it in few)[int(_USUAL_SHARE * (len(few) - 1))]


def _with_prompts_elsewhere(token: FirstToken, elsewhere: CallsElsewhere) -> FirstToken:
    # What others have told is a second old: it may be what they had just before or after.
    told = max(token.tokens_elsewhere, elsewhere.prompts)
    return replace(token, tokens_elsewhere=told)
