"""How a client's turn at the server ended, and what that means for its next one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

_BACKOFF_BASE_SECONDS = 0.25
_BACKOFF_CAP_SECONDS = 8.0
_HELD_FAILURES = 3


class Cause(StrEnum):
    """Why a connection is not there any more, or never was."""

    ENDED = "ended"
    """The answer has."""
    OWN = "own"
    """The client wanted another connection."""
    ASKED = "asked"
    """The server asked for it, with a time."""
    CUT = "cut"
    REFUSED = "refused"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`wait`: how long the server asked to wait.

    `progressed`: whether new text came. `code`: why it was refused.
    """

    cause: Cause
    wait: float | None = None
    progressed: bool = False
    code: str = ""


class Backoff:
    """Full jitter, as `web/src/client/backoff.ts` has it: anything from nothing to a bound that
    stays at a second for some failures, and then doubles with each.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._failures = 0

    def seconds(self, outcome: Outcome) -> float:
        """How long to wait before the next try."""
        if outcome.progressed:
            self._failures = 0
        if outcome.cause in (Cause.OWN, Cause.ENDED):
            return 0.0
        if outcome.cause is Cause.ASKED:
            return outcome.wait or 0.0
        self._failures += 1
        doublings = max(min(self._failures, 2), self._failures - _HELD_FAILURES)
        bound = min(_BACKOFF_CAP_SECONDS, _BACKOFF_BASE_SECONDS * 2.0**doublings)
        return (outcome.wait or 0.0) + self._random.random() * bound
