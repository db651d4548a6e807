"""Stops calls of senders whose calls keep failing. The limiter decides how many may run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

SenderKey = tuple[str, ...]
"""The sender of a call, by names from the widest group to the narrowest: tenant, address, user."""

# When to retry while a probe runs.
_PROBE_SECONDS = 1.0
# Breakers of groups with the same number of names. The oldest is forgotten first.
_MOST_OF_A_LENGTH = 1_024


class CircuitOpen(Exception):
    """The call must not be made: a breaker is open.

    Args:
        seconds: until the next try.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the circuit breaker is open for {seconds:g} s")
        self.seconds = seconds


class _Breaker:
    """Rejects the calls of one group of senders that have failed many times in a row.

    | state | calls | until |
    |---|---|---|
    | closed | go out | `failures` calls in a row have failed: open |
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
        """The number of changes of its state."""

    @property
    def is_closed(self) -> bool:
        """Whether calls go out."""
        return self._open_until is None

    @property
    def is_initial(self) -> bool:
        """Whether its state is that of a new breaker."""
        return not self._failed and not self.state

    def open_for(self, member: str | None, now: float) -> float:
        """The seconds for which a member's calls are rejected. 0: one may go out."""
        if self._open_until is None:
            return 0.0
        if self._probing:
            return _PROBE_SECONDS
        failed_last = member is not None and member == self._last_failed
        return max(0.0, self._open_until + failed_last * self._open_seconds - now)

    def begin(self, now: float) -> int:
        """Begin a call that is not rejected. Returns the state in which it is made."""
        if not self.is_closed:
            self._change(open_until=now, probing=True)
        return self.state

    def record_answering(self, state: int) -> int:
        """Record that a call made in this state begins to be answered. A probe closes the breaker.

        Returns:
            The state to which the call belongs now.
        """
        if state == self.state and self._probing:
            self._change(open_until=None)
            return self.state
        return state

    def record_success(self, state: int) -> None:
        """Record that a call made in this state was answered to its end."""
        if self.record_answering(state) == self.state:
            self._clear()

    def record_failure(self, state: int, member: str | None, now: float, number: int) -> None:
        """Record that a member's call made in this state has failed, by the upstream's fault.

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

    def record_withdrawal(self, state: int, now: float) -> None:
        """Record that a call made in this state ended without a sign of the upstream's health."""
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
    """Rejects calls of senders whose calls to an upstream have failed many times in a row.

    Failures are errors and timeouts. A server that is only busy (429) has not failed: that is
    handled by `ConcurrencyLimiter`.

    Each group of senders has a breaker: all senders, those of a tenant, those of one of its
    addresses, and so on. A call goes out if no breaker of its sender's groups rejects it.

    Args:
        failures: the number of failures in a row that opens a breaker.
        open_seconds: the time for which it is open before a probe may go out.
    """

    def __init__(self, failures: int, open_seconds: float) -> None:
        self._failures = failures
        self._open_seconds = open_seconds
        self._by_length = defaultdict[int, dict[SenderKey, _Breaker]](dict)
        self._number = self._answered = 0

    @property
    def is_failing(self) -> bool:
        """Whether a breaker is open, and no call that was made since it opened was answered."""
        return any(
            not breaker.is_closed and breaker.opened_at >= self._answered
            for breakers in self._by_length.values()
            for breaker in breakers.values()
        )

    def close_all(self) -> None:
        """Close all breakers, as if no call had failed."""
        self._by_length.clear()

    def open_for(self, sender: SenderKey, now: float) -> float:
        """The seconds for which a sender's calls are rejected. 0: one may go out."""
        if not self._has_breakers:
            return 0.0
        seconds = (
            breaker.open_for(member, now)
            for group, member in _groups(sender)
            if (breaker := self._known(group)) is not None
        )
        return max(seconds, default=0.0)

    def call(self, sender: SenderKey, now: float) -> UpstreamCall:
        """Begin a call.

        Raises:
            CircuitOpen: it must not be made.
        """
        if (seconds := self.open_for(sender, now)) > 0:
            raise CircuitOpen(seconds)
        self._number += 1
        states = {}
        if self._has_breakers:
            breakers = [(group, self._known(group)) for group, _ in _groups(sender)]
            states = {group: breaker.begin(now) for group, breaker in breakers if breaker}
        return UpstreamCall(self, sender, self._number, states)

    def record_answering(self, call: UpstreamCall) -> None:
        """Record that a call begins to be answered."""
        self._answered = max(self._answered, call.number)
        for group, breaker in self._breakers_of(call):
            call.states[group] = breaker.record_answering(call.state_of(group))

    def record_success(self, call: UpstreamCall) -> None:
        """Record that a call was answered to its end."""
        self._answered = max(self._answered, call.number)
        for group, breaker in self._breakers_of(call):
            breaker.record_success(call.state_of(group))
            if breaker.is_initial:
                del self._by_length[len(group)][group]

    def record_failure(self, call: UpstreamCall, now: float) -> None:
        """Record that a call has failed, by the upstream's fault."""
        for group, member in _groups(call.sender):
            breaker = self._known(group) or self._new(group)
            breaker.record_failure(call.state_of(group), member, now, self._number)

    def record_withdrawal(self, call: UpstreamCall, now: float) -> None:
        """Record that a call ended without a sign of the upstream's health."""
        for group, breaker in self._breakers_of(call):
            breaker.record_withdrawal(call.state_of(group), now)

    @property
    def _has_breakers(self) -> bool:
        """Whether any call has failed lately. Mostly none has, and a call costs little."""
        return any(self._by_length.values())

    def _breakers_of(self, call: UpstreamCall) -> Sequence[tuple[SenderKey, _Breaker]]:
        """The breakers of a call's groups, where there are any."""
        if not self._has_breakers:
            return ()
        breakers = ((group, self._known(group)) for group, _ in _groups(call.sender))
        return [(group, breaker) for group, breaker in breakers if breaker is not None]

    def _known(self, group: SenderKey) -> _Breaker | None:
        return self._by_length[len(group)].get(group)

    def _new(self, group: SenderKey) -> _Breaker:
        breakers = self._by_length[len(group)]
        if len(breakers) >= _MOST_OF_A_LENGTH:
            del breakers[next(iter(breakers))]
        breaker = breakers[group] = _Breaker(self._failures, self._open_seconds)
        return breaker


def _groups(sender: SenderKey) -> Iterator[tuple[SenderKey, str | None]]:
    """The groups of a sender, each with the member to which the sender belongs.

    The first has all senders. The last is the sender alone.
    """
    for length, member in enumerate((*sender, None)):
        yield sender[:length], member


class UpstreamCall:
    """One call of an upstream. Its end is recorded once, as success, failure or withdrawal.

    Args:
        number: counts the calls, from 1.
        states: of the breakers of its sender's groups when it was made, where there were any.
    """

    __slots__ = ("_breaker", "number", "sender", "states")

    def __init__(
        self, breaker: CircuitBreaker, sender: SenderKey, number: int, states: dict[SenderKey, int]
    ) -> None:
        self._breaker = breaker
        self.sender = sender
        self.number = number
        self.states = states

    def state_of(self, group: SenderKey) -> int:
        """The state of a group's breaker when it was made. 0: there was none."""
        return self.states.get(group, 0)

    def record_answering(self) -> None:
        """Record that the upstream has begun to answer."""
        self._breaker.record_answering(self)

    def record_success(self) -> None:
        """Record that the upstream has answered to the end."""
        self._breaker.record_success(self)

    def record_failure(self, now: float) -> None:
        """Record that the upstream has failed."""
        self._breaker.record_failure(self, now)

    def record_withdrawal(self, now: float) -> None:
        """Record that the call was given up, or failed by our fault or the client's."""
        self._breaker.record_withdrawal(self, now)
