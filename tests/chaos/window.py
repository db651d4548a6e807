"""A stretch of the run: a fault, the load that it met, and what was measured until everything
was well again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.chaos.answer_check import AnswerCheck, Kind
from tests.chaos.arrival_rate import ArrivalRate
from tests.chaos.outcome import Cause


@dataclass
class Window:
    """What counts for one fault.

    Args:
        fault: its name.
    """

    fault: str
    in_flight: int = 0
    """Answers in flight when it struck."""
    answers: int = 0
    deltas: int = 0
    characters: int = 0
    restarts: int = 0
    lags: int = 0
    problems: Counter[Kind] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """Codes of the errors that answers ended with."""
    refusals: Counter[str] = field(default_factory=Counter)
    turns: Counter[Cause] = field(default_factory=Counter)
    closes: Counter[int] = field(default_factory=Counter)
    vias: Counter[str] = field(default_factory=Counter)
    recoveries: list[float] = field(default_factory=list)
    """Seconds from the kill of an owner to the first new text, for each reader of a stream."""
    resumes: dict[Cause, list[float]] = field(default_factory=dict)
    """Seconds from the first try to come back to the first frame of the answer, by why the
    reader had gone.
    """
    drain_seconds: float | None = None
    model_calls: int = 0
    billed_twice: int = 0
    """Calls beyond the first for the same response, epoch and attempt."""
    answer_lines: int = 0
    """Lines of answers in the nodes' logs."""
    usage_records: int = 0
    """Usage records of answers in the store."""
    peak_bytes: int = 0
    response_ids: set[str] = field(default_factory=set)
    arrivals: ArrivalRate | None = None
    """Where a drain was measured."""
    remarks: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    """What a fault found that should not be; each fails the run."""

    @property
    def failed(self) -> bool:
        """Whether anything in it fails the run."""
        return bool(self.problems or self.misses or self.billed_twice)

    def resumed(self, cause: Cause, seconds: float) -> None:
        """A reader came back."""
        self.resumes.setdefault(cause, []).append(seconds)

    def count_calls(self, calls: Mapping[str, int]) -> None:
        """Of all model calls by their key `<response>:<epoch>:<attempt>`, count those for this
        window's responses.
        """
        own = [count for key, count in calls.items() if key.rsplit(":", 2)[0] in self.response_ids]
        self.model_calls = sum(own)
        self.billed_twice = sum(count - 1 for count in own)

    def count(self, check: AnswerCheck) -> None:
        """What one reader has at the end."""
        self.deltas += check.deltas
        self.characters += check.length
        self.restarts += check.restarts
        self.problems.update(problem.kind for problem in check.problems)
        if check.error_code is not None:
            self.errors[check.error_code] += 1
