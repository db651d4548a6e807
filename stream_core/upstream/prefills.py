"""Prefill: the time in which a model computes a prompt, and what others wait for it."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from evenflow.stream_core.upstream.calls_elsewhere import CallsElsewhere
from evenflow.stream_core.upstream.first_tokens import FirstToken
from evenflow.stream_core.upstream.server_slots import ServerSlots

# So much of what earlier first tokens have taught is forgotten with each new one.
_FORGOTTEN_SHARE = 0.02
_FEWEST_FIRST_TOKENS = 8
# Below this t-value, squared, a slope may be chance.
_CERTAIN = 6.0
_FIRST_WINDOW, _WIDEST_WINDOW = 1_024.0, 1e9
# Of a prompt whose first token shows no delay, while the window bounds something.
_GROWTH = 0.5
_NO_NOISE = 1e-12


class PrefillWindow:
    """How many tokens of prompts may be in prefill so that a newcomer waits for `delay` at most.

    An engine of one's own computes one prompt after the other: who comes behind 8,000 tokens waits
    for them. A service of many machines computes them side by side. Which it is shows in the times
    of first tokens: whether they come later where more was ahead. The slope of that regression is
    the delay of each token ahead, and the window is `delay` divided by it. Where no slope is
    certain, here or at another task, the window grows as long as it keeps prompts waiting, by half
    with each window of prompts that was computed, and never faster: few first tokens may be wrong.

    Args:
        delay: in seconds.
    """

    __slots__ = ("_ahead", "_bounds", "_delay", "_products", "_seconds", "_squares", "_variation",
                 "_weight", "delay_elsewhere", "slope", "tokens")  # fmt: skip

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._bounds = False
        self.tokens = _FIRST_WINDOW
        """The window."""
        self.slope: float | None = None
        """The delay of each token ahead, in seconds. None: it isn't certain that there is any."""
        self.delay_elsewhere = 0.0
        """What other tasks have found instead, or a part of it where not all are certain. 0: none
        is."""
        # Weighted means, and sums of the squares and products of the differences from them.
        self._weight = self._ahead = self._seconds = 0.0
        self._squares = self._products = self._variation = 0.0

    def keeps_waiting(self) -> None:
        """Note that a prompt waits for room in the window."""
        self._bounds = True

    def first_token(self, ahead: float, own: float, seconds: float) -> None:
        """Learn from a first token.

        Args:
            ahead: tokens of other prompts that were in prefill when its answer began.
            own: tokens of its prompt.
            seconds: from that moment until the first token came.
        """
        kept = 1 - _FORGOTTEN_SHARE
        self._weight = self._weight * kept + 1
        more, longer = ahead - self._ahead, seconds - self._seconds
        self._ahead += more / self._weight
        self._seconds += longer / self._weight
        self._squares = self._squares * kept + more * (ahead - self._ahead)
        self._products = self._products * kept + more * (seconds - self._seconds)
        self._variation = self._variation * kept + longer * (seconds - self._seconds)
        self.slope = self._slope()
        grown = min(_WIDEST_WINDOW, self.tokens + _GROWTH * own)
        if slope := self.slope or self.delay_elsewhere:
            self.tokens = min(grown, self._delay / slope)
        elif self._bounds:
            self.tokens = grown
        self._bounds = False

    def _slope(self) -> float | None:
        if self._weight < _FEWEST_FIRST_TOKENS or self._products <= 0:
            return None
        explained = self._products**2 / self._squares
        by_chance = max(self._variation - explained, _NO_NOISE) / (self._weight - 2)
        return self._products / self._squares if explained >= _CERTAIN * by_chance else None


class _Prefill(NamedTuple):
    tenant: str
    tokens: int
    ahead: int
    ahead_elsewhere: int
    beside: int
    beside_elsewhere: int
    began_at: float
    measured: bool = True


class Prefills:
    """The answers of one model that have begun and have no token yet.

    Args:
        delay: how long a newcomer may wait for the prompts of others, in seconds.
    """

    def __init__(self, delay: float) -> None:
        self.slots = ServerSlots()
        """How many calls the server answers at once."""
        self.window = PrefillWindow(delay)
        """How many tokens of their prompts there may be."""
        self._of: dict[str, _Prefill] = {}
        self._of_tenant: Counter[str] = Counter()
        self.tokens = 0
        """Of their prompts."""

    @property
    def full(self) -> bool:
        """Whether one more prompt would have a newcomer wait for too long."""
        return self.tokens >= self.window.tokens

    def __len__(self) -> int:
        return len(self._of)

    def learn(self, elsewhere: CallsElsewhere, now: float) -> None:
        """Note what other tasks ask of the model."""
        self.slots.learn(elsewhere, now)
        self.window.delay_elsewhere = elsewhere.delay

    def has_slot(self, running: int, tenant: str | None = None) -> bool:
        """Whether one more call has a slot, if so many run. `tenant`: whose. None: anybody's."""
        return self.slots.has_room(running, running - len(self._of), tenant)

    def crowded(self, running: int) -> bool:
        """Whether what is left of the slots is for who was given least, if so many run."""
        return self.slots.crowded(running, running - len(self._of))

    def keeps_waiting(self) -> None:
        """Note that a prompt waits until these have their tokens."""
        self.window.keeps_waiting()

    def of(self, tenant: str) -> int:
        """How many answers of a tenant have no token yet."""
        return self._of_tenant[tenant]

    def began_at(self, response_id: str) -> float | None:
        """When an answer began that has no token yet, in seconds. None: it isn't one of these."""
        prefill = self._of.get(response_id)
        return None if prefill is None else prefill.began_at

    def begin(
        self, response_id: str, tenant: str, tokens: int, now: float, beside: int = 0
    ) -> None:
        """An answer begins.

        Args:
            tokens: of its prompt.
            beside: calls of the model that run already at this task.
        """
        elsewhere = self.slots.elsewhere
        self.slots.begins(beside, beside - len(self._of))
        self._of[response_id] = _Prefill(
            tenant, tokens, self.tokens, elsewhere.prompts, beside, elsewhere.running, now
        )
        self._of_tenant[tenant] += 1
        self.tokens += tokens

    def first_token(self, response_id: str, now: float, running: int = 1) -> None:
        """The first token of an answer came.

        Args:
            running: calls of the model that run at this task, with this one.
        """
        prefill = self.end(response_id)
        if prefill is None or not prefill.measured:
            return
        seconds = now - prefill.began_at
        self.window.first_token(prefill.ahead, prefill.tokens, seconds)
        token = FirstToken(
            prefill.beside,
            prefill.beside_elsewhere,
            prefill.tokens + prefill.ahead,
            prefill.ahead_elsewhere,
            seconds,
        )
        self.slots.first_token(token, running - len(self._of), now)

    def fails(self, response_id: str) -> None:
        """A call failed before its first token, and is made again. When that one comes says nothing
        of the model.
        """
        if prefill := self._of.get(response_id):
            self._of[response_id] = prefill._replace(measured=False)

    def end(self, response_id: str) -> _Prefill | None:
        """An answer has its first token, or will have none. A second call changes nothing."""
        prefill = self._of.pop(response_id, None)
        if prefill is not None:
            self.tokens -= prefill.tokens
            self._of_tenant[prefill.tenant] -= 1
            if not self._of_tenant[prefill.tenant]:
                del self._of_tenant[prefill.tenant]
        return prefill
