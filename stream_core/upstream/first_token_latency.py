"""Judges whether first tokens are late: while an engine has a free slot, they come as usual."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from heapq import nsmallest

from evenflow.stream_core.upstream.calls_on_other_nodes import CallsOnOtherNodes

# An engine's step takes as long as about this number of tokens of a prompt.
_TOKENS_OF_A_STEP = 256
# First tokens of calls beside few others: the most that are remembered, the fewest that show the
# usual latency, and the percentile that is usual.
_REMEMBERED, _FEWEST, _USUAL_PERCENTILE = 64, 5, 0.9
# Late is more than twice the usual, and either more than a second or six times the usual. Less than
# a quarter of a second is always in time.
_LATE_TIMES, _LATE_SECONDS, _CLEARLY_LATE_TIMES, _IN_TIME_SECONDS = 2.0, 1.0, 6.0, 0.25
_PEAK_DECAY = 0.98  # with each first token


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The first token of an answer.

    Args:
        here, on_other_nodes: calls that ran when its own call started.
        tokens, tokens_on_other_nodes: of its prompt, and of prompts that were in prefill.
        seconds: from the start of its call.
    """

    here: int
    on_other_nodes: int
    tokens: int
    tokens_on_other_nodes: int
    seconds: float

    @property
    def concurrent(self) -> int:
        """Calls that ran when its own call started, on all nodes."""
        return self.here + self.on_other_nodes

    @property
    def seconds_per_token(self) -> float:
        """Seconds for each token of a prompt, with those of a step."""
        return self.seconds / (_TOKENS_OF_A_STEP + self.tokens + self.tokens_on_other_nodes)


class FirstTokenLatency:
    """Learns the usual time to first token from calls beside few others.

    Usual is the 90th percentile of calls that started beside at most half as many as were lately
    answered at once, by the tokens of prompts in prefill.
    """

    __slots__ = ("_few", "_unreported", "peak")

    def __init__(self) -> None:
        self.peak = 0.0
        """The most calls answered at once, with a decay."""
        # First tokens of calls beside few others.
        self._few: deque[FirstToken] = deque(maxlen=_REMEMBERED)
        # First tokens since the last reports of other nodes.
        self._unreported: deque[FirstToken] = deque(maxlen=_REMEMBERED)

    def judge(
        self, token: FirstToken, answered: int, on_other_nodes: CallsOnOtherNodes
    ) -> tuple[FirstToken, bool | None]:
        """Learn from a first token.

        Args:
            answered: calls of all nodes that run and have a token, with this one.

        Returns:
            The token with the reports of other nodes, and whether it is late. None: unclear.
        """
        token = _with_prompts(token, on_other_nodes)
        self.peak = max(answered, self.peak * _PEAK_DECAY)
        late = self._is_late(token)
        if on_other_nodes.unreported_nodes or on_other_nodes.wanted_by_node:
            self._unreported.append(token)
        else:
            self._remember(token, on_other_nodes)
        return token, late

    def record_reports(self, on_other_nodes: CallsOnOtherNodes) -> None:
        """Take the reports of other nodes."""
        while self._unreported:
            self._remember(self._unreported.popleft(), on_other_nodes)

    def forget(self) -> None:
        """Forget the usual latency."""
        self._few.clear()

    def _remember(self, token: FirstToken, on_other_nodes: CallsOnOtherNodes) -> None:
        """Remember a token if few calls ran at its start, as far as reported by now."""
        token = _with_prompts(token, on_other_nodes)
        running = max(token.on_other_nodes, on_other_nodes.running)
        if running != token.on_other_nodes:
            token = replace(token, on_other_nodes=running)
        if token.concurrent <= self.peak / 2 or len(self._few) < _FEWEST:
            self._few.append(token)

    def _is_late(self, token: FirstToken) -> bool | None:
        """Whether a token is late. None: unclear."""
        if token.seconds < _IN_TIME_SECONDS:
            return False
        usual = self._usual_seconds_per_token()
        if usual is None or token.seconds_per_token <= _LATE_TIMES * usual:
            return False
        is_clear = (
            token.seconds > _LATE_SECONDS or token.seconds_per_token > _CLEARLY_LATE_TIMES * usual
        )
        return True if is_clear else None

    def _usual_seconds_per_token(self) -> float | None:
        """The usual latency. None: too few first tokens have come."""
        few = [each for each in self._few if each.concurrent <= self.peak / 2]
        if len(few) < _FEWEST:
            few = nsmallest(_FEWEST, self._few, key=lambda each: each.concurrent)
        if len(few) < _FEWEST:
            return None
        return sorted(each.seconds_per_token for each in few)[
            int(_USUAL_PERCENTILE * (len(few) - 1))
        ]


def _with_prompts(token: FirstToken, on_other_nodes: CallsOnOtherNodes) -> FirstToken:
    # Reports are a second old: they may be from just before or after the start.
    prompts = max(token.tokens_on_other_nodes, on_other_nodes.prompts)
    if prompts == token.tokens_on_other_nodes:
        return token
    return replace(token, tokens_on_other_nodes=prompts)
