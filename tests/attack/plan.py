"""How large a run is, and how long its parts take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """One run.

    Args:
        share: of the size of each attack.
        warm_questions: that are answered before anything is measured.
        warm_seconds: that honest readers ask before they are watched.
        calm_seconds: that honest readers are watched for, before and after.
        strike_seconds: how long an attack lasts that may last as long as one likes.
        settle_seconds: until memory must be back.
        slower_seconds: by which the first token and the longest gap may be later during an attack,
            unless a tenth of what they were before is more.
        slack_mib: that memory may keep besides, where it is given little time for that.
        patience_seconds: for an attack; then it is over, whatever it has done.
        watch_seconds: how long an attack may wait for a bound of time to be kept.
        shares_servers: whether attacks that honest readers judge follow each other on one server,
            so that one that harms it for long may fail the next.
    """

    share: float = 1.0
    warm_questions: int = 2_000
    warm_seconds: float = 5.0
    calm_seconds: float = 5.0
    strike_seconds: float = 10.0
    settle_seconds: float = 60.0
    slower_seconds: float = 0.05
    slack_mib: float = 0.0
    patience_seconds: float = 120.0
    watch_seconds: float = 90.0
    shares_servers: bool = False

    @classmethod
    def short(cls) -> Plan:
        """For `make check`: the whole of it ends within 60 s."""
        return cls(
            share=0.125,
            warm_questions=0,
            warm_seconds=1.0,
            calm_seconds=1.0,
            strike_seconds=2.0,
            settle_seconds=2.0,
            # Other lanes run beside it, machines are shared, and few questions are asked: it sees
            # that the server is stopped, not that it is slowed down.
            slower_seconds=3.0,
            slack_mib=32.0,
            patience_seconds=15.0,
            watch_seconds=8.0,
            shares_servers=True,
        )
