"""Circuit breakers: what fails again and again is not called for a while."""

from __future__ import annotations

# When to ask again while a probe is under way.
_PROBE_SECONDS = 1.0


class CircuitOpen(Exception):
    """The call must not be made: the breaker is open.

    Args:
        seconds: when to ask again.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the circuit breaker is open for {seconds:g} s")
        self.seconds = seconds


class CircuitBreaker:
    """Refuses calls to an upstream that has failed many times in a row.

    | state | calls | until |
    |---|---|---|
    | closed | go out | `failures` calls in a row have failed: open |
    | open | are refused | `open_seconds` have passed, and a call comes, the probe: half open |
    | half open | are refused, but for the probe | the probe answers: closed; it fails: open |

    A call that was made in an earlier state says nothing about this one.

    Args:
        failures: how many failures in a row open it.
        open_seconds: how long it is open before it lets a probe out.
    """

    __slots__ = ("_failed", "_failures", "_open_seconds", "_open_until", "_probing", "_state")

    def __init__(self, failures: int, open_seconds: float) -> None:
        self._failures = failures
        self._open_seconds = open_seconds
        self._failed = 0
        self._open_until: float | None = None
        self._probing = False
        self._state = 0  # counts the changes

    @property
    def closed(self) -> bool:
        """Whether calls go out."""
        return self._open_until is None

    def refuses_for(self, now: float) -> float:
        """For how many seconds calls are refused. 0 if one may go out."""
        if self._open_until is None:
            return 0.0
        return _PROBE_SECONDS if self._probing else max(0.0, self._open_until - now)

    def call(self, now: float) -> Call:
        """Begin a call.

        Raises:
            CircuitOpen: it must not be made.
        """
        if (seconds := self.refuses_for(now)) > 0:
            raise CircuitOpen(seconds)
        if not self.closed:
            self._change(open_until=now, probing=True)
        return Call(self, self._state)

    def answers(self, state: int) -> int:
        """A call made in this state begins to get an answer. Returns the state that it is of now.

        A probe closes the breaker.
        """
        if state == self._state and self._probing:
            self._change(open_until=None)
            return self._state
        return state

    def succeeded(self, state: int) -> None:
        """A call made in this state was answered to its end."""
        if self.answers(state) == self._state:
            self._failed = 0

    def failed(self, state: int, now: float) -> None:
        """A call made in this state has failed, by the upstream's fault."""
        if state != self._state:
            return
        self._failed += 1
        if self._probing or self._failed >= self._failures:
            self._change(open_until=now + self._open_seconds)

    def withdrawn(self, state: int, now: float) -> None:
        """A call made in this state ended, and that says nothing about the upstream."""
        if state == self._state and self._probing:
            self._change(open_until=now)

    def _change(self, *, open_until: float | None, probing: bool = False) -> None:
        self._open_until, self._probing = open_until, probing
        self._failed = 0
        self._state += 1


class Call:
    """One call of an upstream. Its end is told once: `succeeded`, `failed` or `withdrawn`."""

    __slots__ = ("_breaker", "_state")

    def __init__(self, breaker: CircuitBreaker, state: int) -> None:
        self._breaker = breaker
        self._state = state

    def answers(self) -> None:
        """The upstream has begun to answer."""
        self._state = self._breaker.answers(self._state)

    def succeeded(self) -> None:
        """The upstream has answered to the end."""
        self._breaker.succeeded(self._state)

    def failed(self, now: float) -> None:
        """The upstream has failed."""
        self._breaker.failed(self._state, now)

    def withdrawn(self, now: float) -> None:
        """The call was given up, or failed by nobody's fault but ours or the client's."""
        self._breaker.withdrawn(self._state, now)
