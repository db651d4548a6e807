"""Stops calls of senders whose calls keep failing. How many may run is the limiter's concern."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

Sender = tuple[str, ...]
"""The sender of a call, by names from the widest group to the narrowest: tenant, address, user."""

# When to ask again while a probe is under way.
_PROBE_SECONDS = 1.0
# Breakers of groups with the same number of names. The oldest is forgotten first.
_MOST_OF_A_LENGTH = 1_024


class CircuitOpen(Exception):
    """The call must not be made: a breaker is open.

    Args:
        seconds: when to ask again.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the circuit breaker is open for {seconds:g} s")
        self.seconds = seconds


class _Breaker:
    """Rejects the calls of one group of senders that have failed many times in a row.

    | state | calls | until |
    |---|---|---|
    | closed | go out | enough calls in a row have failed: open |
    | open | are rejected | `open_seconds` have passed, and a call comes, the probe: half open |
    | half open | are rejected, but for the probe | the probe answers: closed; it fails: open |

    A group has members, which are narrower groups. One member alone never opens it: at most half
    of the counted failures are one member's. The member whose call failed last may send the probe
    only after another `open_seconds`. The narrowest group is one sender, without members (None).

    A call that was made in an earlier state says nothing about this one.
    """

    __slots__ = (
        "_failed",
        "_failures",
        "_last_failed",
        "_of_members",
        "_open_seconds",
        "_open_until",
        "_probing",
        "opened_at",
        "state",
    )

    def __init__(self, failures: int, open_seconds: float) -> None:
        self._failures = failures
        self._open_seconds = open_seconds
        self._of_members = Counter[str | None]()
        self._failed = 0
        self._last_failed: str | None = None
        self._open_until: float | None = None
        self._probing = False
        self.opened_at = 0
        """The number of the last call before it opened."""
        self.state = 0
        """How often its state has changed."""

    @property
    def closed(self) -> bool:
        """Whether calls go out."""
        return self._open_until is None

    @property
    def is_as_new(self) -> bool:
        """Whether it is the same as a new one."""
        return not self._failed and not self.state

    def open_for(self, member: str | None, now: float) -> float:
        """For how many seconds the calls of a member are rejected. 0 if one may go out."""
        if self._open_until is None:
            return 0.0
        if self._probing:
            return _PROBE_SECONDS
        failed_last = member is not None and member == self._last_failed
        return max(0.0, self._open_until + failed_last * self._open_seconds - now)

    def begin(self, now: float) -> int:
        """Begin a call that is not rejected. Returns the state in which it is made."""
        if not self.closed:
            self._change(open_until=now, probing=True)
        return self.state

    def answers(self, state: int) -> int:
        """A call made in this state begins to get an answer. Returns the state it belongs to now.

        A probe closes the breaker.
        """
        if state == self.state and self._probing:
            self._change(open_until=None)
            return self.state
        return state

    def succeeded(self, state: int) -> None:
        """A call made in this state was answered to its end."""
        if self.answers(state) == self.state:
            self._clear()

    def failed(self, state: int, member: str | None, now: float, number: int) -> None:
        """A member's call made in this state has failed, by the upstream's fault.

        Args:
            number: of the last call that was made.
        """
        if state != self.state:
            return
        self._last_failed = member
        most = self._failures if member is None else (self._failures + 1) // 2
        if self._of_members[member] < most:
            self._of_members[member] += 1
            self._failed += 1
        is_alone = member is not None and len(self._of_members) == 1
        if self._probing or (self._failed >= self._failures and not is_alone):
            if not self._probing:
                self.opened_at = number
            self._change(open_until=now + self._open_seconds)

    def withdrawn(self, state: int, now: float) -> None:
        """A call made in this state ended, and that says nothing about the upstream."""
        if state == self.state and self._probing:
            self._change(open_until=now)

    def _change(self, *, open_until: float | None, probing: bool = False) -> None:
        self._open_until, self._probing = open_until, probing
        self._clear()
        self.state += 1

    def _clear(self) -> None:
        self._of_members.clear()
        self._failed = 0


class CircuitBreaker:
    """Rejects calls to an upstream for those senders whose calls have failed many times in a row.

    Failures are errors and timeouts. A server that is only busy (429) is no failure: that is the
    concern of `ConcurrencyLimiter`.

    Each group of senders has a breaker: all senders, those of a tenant, those of one of its
    addresses, and so on. A call goes out if no breaker of its sender's groups rejects it.

    Args:
        failures: how many failures in a row open one.
        open_seconds: how long it is open before it lets a probe out.
    """

    def __init__(self, failures: int, open_seconds: float) -> None:
        self._failures = failures
        self._open_seconds = open_seconds
        self._by_length = defaultdict[int, dict[Sender, _Breaker]](dict)
        self._number = self._answered = 0

    @property
    def failing(self) -> bool:
        """Whether a breaker is open, and no call that was made since it opened was answered."""
        return any(
            not breaker.closed and breaker.opened_at >= self._answered
            for breakers in self._by_length.values()
            for breaker in breakers.values()
        )

    def open_for(self, sender: Sender, now: float) -> float:
        """For how many seconds a sender's calls are rejected. 0 if one may go out."""
        seconds = (
            breaker.open_for(member, now)
            for group, member in _groups(sender)
            if (breaker := self._known(group)) is not None
        )
        return max(seconds, default=0.0)

    def call(self, sender: Sender, now: float) -> UpstreamCall:
        """Begin a call.

        Raises:
            CircuitOpen: it must not be made.
        """
        if (seconds := self.open_for(sender, now)) > 0:
            raise CircuitOpen(seconds)
        self._number += 1
        breakers = [(group, self._known(group)) for group, _ in _groups(sender)]
        states = {group: breaker.begin(now) if breaker else 0 for group, breaker in breakers}
        return UpstreamCall(self, sender, self._number, states)

    def answers(self, call: UpstreamCall) -> None:
        """A call begins to get an answer."""
        self._answered = max(self._answered, call.number)
        for group, state in call.states.items():
            if breaker := self._known(group):
                call.states[group] = breaker.answers(state)

    def succeeded(self, call: UpstreamCall) -> None:
        """A call was answered to its end."""
        self._answered = max(self._answered, call.number)
        for group, state in call.states.items():
            if breaker := self._known(group):
                breaker.succeeded(state)
                if breaker.is_as_new:
                    del self._by_length[len(group)][group]

    def failed(self, call: UpstreamCall, now: float) -> None:
        """A call has failed, by the upstream's fault."""
        for group, member in _groups(call.sender):
            breaker = self._known(group) or self._new(group)
            breaker.failed(call.states[group], member, now, self._number)

    def withdrawn(self, call: UpstreamCall, now: float) -> None:
        """A call ended, and that says nothing about the upstream."""
        for group, state in call.states.items():
            if breaker := self._known(group):
                breaker.withdrawn(state, now)

    def _known(self, group: Sender) -> _Breaker | None:
        return self._by_length[len(group)].get(group)

    def _new(self, group: Sender) -> _Breaker:
        breakers = self._by_length[len(group)]
        if len(breakers) >= _MOST_OF_A_LENGTH:
            del breakers[next(iter(breakers))]
        breaker = breakers[group] = _Breaker(self._failures, self._open_seconds)
        return breaker


def _groups(sender: Sender) -> Iterator[tuple[Sender, str | None]]:
    """The groups of a sender, each with the member to which the sender belongs.

    The first has all senders. The last is the sender alone.
    """
    for length, member in enumerate((*sender, None)):
        yield sender[:length], member


class UpstreamCall:
    """One call of an upstream. Its end is reported once: `succeeded`, `failed` or `withdrawn`.

    Args:
        number: how many calls were made before, with this one.
        states: of the breakers of its sender's groups when it was made. 0: there was no breaker.
    """

    __slots__ = ("_breaker", "number", "sender", "states")

    def __init__(
        self, breaker: CircuitBreaker, sender: Sender, number: int, states: dict[Sender, int]
    ) -> None:
        self._breaker = breaker
        self.sender = sender
        self.number = number
        self.states = states

    def answers(self) -> None:
        """The upstream has begun to answer."""
        self._breaker.answers(self)

    def succeeded(self) -> None:
        """The upstream has answered to the end."""
        self._breaker.succeeded(self)

    def failed(self, now: float) -> None:
        """The upstream has failed."""
        self._breaker.failed(self, now)

    def withdrawn(self, now: float) -> None:
        """The call was given up, or failed by our fault or the client's."""
        self._breaker.withdrawn(self, now)
