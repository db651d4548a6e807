"""What was measured of an attack, and what of it fails the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.attack.honest import EVERY_SECONDS, PATIENCE_SECONDS, Question

MIB = 1_048_576
_SLOWER_SHARE = 0.1
BACK_WITHIN = 1.1
_LOG_LINES_PER_SECOND = 100.0


@dataclass(frozen=True)
class Memory:
    """Resident bytes of the server. `peak` is from the beginning of the attack on.

    `kept`: how much more its account says that it keeps by intent, within the bounds.
    """

    before: int
    peak: int
    after: int
    kept: int = 0


@dataclass(frozen=True)
class Disk:
    """Bytes of the server's store on the disk."""

    before: int
    peak: int
    after: int


@dataclass(frozen=True)
class Noticed:
    """What honest readers noticed within a time: p95, in seconds. None: nothing came.

    Args:
        first_token: until the first text of an answer.
        gap: the longest time between two texts of an answer.
    """

    first_token: float | None
    gap: float | None

    @classmethod
    def of(cls, questions: Sequence[Question]) -> Noticed:
        """By the questions that were asked in that time."""
        return cls(
            p95([it.seconds for it in questions]),
            p95([it.gap for it in questions if not it.error]),
        )


@dataclass
class Measured:
    """One attack.

    Args:
        name: of the attack.
        slower_seconds, slack_mib: as of `Plan`.
        grows_mib, stores_mib: as of `Attack`.
        began_at, ended_at: of the attack (`time.monotonic` seconds).
        cpu_before, cpu_during: the CPU that the server took, as a share of one core.
        sent_bytes: by the attacker.
    """

    name: str
    slower_seconds: float = 0.05
    grows_mib: float = 0.0
    stores_mib: float = 0.0
    slack_mib: float = 0.0
    began_at: float = 0.0
    ended_at: float = 0.0
    did: str = ""
    questions: Sequence[Question] = ()
    memory: Memory | None = None
    disk: Disk | None = None
    cpu_before: float | None = None
    cpu_during: float | None = None
    sent_bytes: int = 0
    log_bytes: int = 0
    log_lines: int = 0
    misses: list[str] = field(default_factory=list)

    @property
    def before(self) -> Noticed:
        """What honest readers noticed before the attack."""
        return Noticed.of([it for it in self.questions if it.asked_at < self.began_at])

    @property
    def during(self) -> Noticed:
        """Likewise of what was asked during the attack."""
        return Noticed.of(
            [it for it in self.questions if self.began_at <= it.asked_at < self.ended_at]
        )

    @property
    def after(self) -> Noticed:
        """Likewise after it."""
        return Noticed.of([it for it in self.questions if it.asked_at >= self.ended_at])

    @property
    def broken(self) -> Counter[str]:
        """Honest questions that were not answered whole since the attack began, by their error."""
        since = [it for it in self.questions if it.asked_at >= self.began_at]
        return Counter(f"{it.reader} {it.error}" for it in since if it.error)

    @property
    def lines_per_second(self) -> float:
        """Of the log, during the attack. What took no second counts as one."""
        return self.log_lines / max(1.0, self.ended_at - self.began_at)

    @property
    def failures(self) -> list[str]:
        """Why it fails the run; nothing when it doesn't."""
        return [
            *self.misses,
            *self._slower(),
            *self._refusals(),
            *self._memory(),
            *self._disk(),
            *self._log(),
        ]

    def _slower(self) -> Iterator[str]:
        if not self.questions:
            return
        before, during = self.before, self.during
        if before.first_token is None or during.first_token is None:
            yield "no honest reader asked anything"
            return
        for what, quiet_s, attack_s in (
            ("first token", before.first_token, during.first_token),
            ("longest gap", before.gap, during.gap),
        ):
            if quiet_s is None or attack_s is None:
                continue  # no question was answered whole, which fails it already
            bound = quiet_s + max(_SLOWER_SHARE * quiet_s, self.slower_seconds)
            if attack_s > bound:
                yield f"{what} p95 {1_000 * attack_s:.0f} ms, not {1_000 * bound:.0f}"

    def _refusals(self) -> Iterator[str]:
        if self.broken:
            told = ", ".join(f"{count} {error}" for error, count in self.broken.most_common(3))
            yield f"honest readers: {told}"

    def _memory(self) -> Iterator[str]:
        if self.memory is None:
            return
        memory = self.memory
        before, peak, after = (it / MIB for it in (memory.before, memory.peak, memory.after))
        allowed = BACK_WITHIN * (before + memory.kept / MIB) + self.slack_mib
        if peak > before + self.grows_mib:
            yield f"memory grew by {peak - before:.0f} MiB, not {self.grows_mib:g}"
        if after > allowed:
            yield f"memory is {after:.0f} MiB afterwards, not {allowed:.0f}"

    def _disk(self) -> Iterator[str]:
        if self.disk is not None and (grew := self.disk.peak - self.disk.before) > (
            self.stores_mib * MIB
        ):
            yield f"the store grew by {grew / MIB:.0f} MiB, not {self.stores_mib:g}"

    def _log(self) -> Iterator[str]:
        if self.lines_per_second > _LOG_LINES_PER_SECOND:
            yield f"{self.lines_per_second:,.0f} log lines a second"


def p95(waits: Sequence[float]) -> float | None:
    """The p95 of what honest readers waited, in seconds; None without any.

    A reader asks its next question when the last is answered. Those that it would have asked
    meanwhile would have waited, too: they count, or one long stop of the server would be one slow
    question a reader.
    """
    times = [seconds for wait in waits for seconds in _with_missed(wait)]
    return float(np.percentile(times, 95)) if times else None


def _with_missed(seconds: float) -> Iterator[float]:
    seconds = min(seconds, PATIENCE_SECONDS)
    yield seconds
    while (seconds := seconds - EVERY_SECONDS) > EVERY_SECONDS:
        yield seconds
