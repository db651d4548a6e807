"""How large a run is, and how long its parts take."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Plan:
    """One run.

    Args:
        seed: of everything that is drawn.
        answers: how many are in flight when a fault strikes.
        spare: how many more sessions are kept going, since some are always between two answers.
        ramp_seconds: over which the sessions begin.
        answer_seconds: how long an answer takes the model, from and to.
        gap_ms: between two of its tokens, from and to.
        patience_seconds: beyond that, before an answer is given up as unfinished.
        idle: connections without an answer that are open all the time.
        drained: connections of the one node that is drained with nearly all of them idle.
        lease_seconds, drain_seconds: settings of the handlers.
        hold_seconds: how long a fault lasts, for those that last as long as one likes.
        lost_owners: how many nodes are killed while stock clients read.
        run: a name that no other run has.
    """

    seed: int
    answers: int = 1_000
    spare: int = 150
    ramp_seconds: float = 20.0
    answer_seconds: tuple[float, float] = (30.0, 45.0)
    gap_ms: tuple[int, int] = (600, 900)
    patience_seconds: float = 90.0
    idle: int = 500
    drained: int = 5_000
    lease_seconds: float = 3.0
    drain_seconds: int = 40
    hold_seconds: float = 8.0
    lost_owners: int = 2
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    @classmethod
    def short(cls, seed: int) -> Plan:
        """For `make check`: the whole of it ends within 100 s."""
        return cls(
            seed,
            answers=80,
            spare=12,
            ramp_seconds=3.0,
            answer_seconds=(5.0, 8.0),
            gap_ms=(200, 300),
            patience_seconds=40.0,
            idle=50,
            drained=300,
            drain_seconds=5,
            hold_seconds=4.0,
            lost_owners=1,
        )
