"""How several tasks divide a server's slots, each by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from stream_core.ports.task_calls import TaskCalls


@dataclass(frozen=True, slots=True)
class CallsElsewhere:
    """What other tasks ask of one model, as they have told it last.

    Args:
        running: calls that have not ended.
        answered: those of them that have a token.
        prompts: tokens of the prompts of those that have none.
        delay: of a first token, by each token of a prompt ahead of it, in seconds: the mean of all
            tasks, this one too, where those that are not certain count as 0. So one that is wrong
            is of little account among many.
        slots: the fewest that any of them has found the server to have. None: none has.
        wanted: of each task that asks it, how many slots it could use, and whether its name comes
            before this one's.
    """

    running: int = 0
    answered: int = 0
    prompts: int = 0
    delay: float = 0.0
    slots: int | None = None
    wanted: tuple[tuple[int, bool], ...] = ()

    @classmethod
    def of(cls, model: str, task: str, rows: Iterable[TaskCalls]) -> Self:
        """What they ask of a model.

        Args:
            task: this one, whose own row is left out.
        """
        found = [
            (row.calls[model], row.task < task)
            for row in rows
            if row.task != task and model in row.calls
        ]
        return cls(
            sum(calls.running for calls, _ in found),
            sum(calls.answered for calls, _ in found),
            sum(calls.prompts for calls, _ in found),
            sum(calls.delay for calls, _ in found) / (len(found) + 1),
            min((calls.slots for calls, _ in found if calls.slots is not None), default=None),
            tuple(sorted((calls.running + calls.waiting, before) for calls, before in found)),
        )

    def part(self, slots: int) -> int:
        """How many of a server's slots are for this task, one at least.

        All have equal parts, and what some don't want is divided among the others.
        """
        left, others = slots, list(self.wanted)
        while others and others[0][0] * (len(others) + 1) < left:
            left -= others.pop(0)[0]
        tasks, before = len(others) + 1, sum(is_before for _, is_before in others)
        # So that all parts together are all slots, if they can't be divided evenly.
        return max(1, left * (before + 1) // tasks - left * before // tasks)
