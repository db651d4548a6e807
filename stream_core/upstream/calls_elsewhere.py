"""How several tasks divide a server's slots, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from evenflow.stream_core.upstream.division import Division, divide_slots
from evenflow.stream_core.upstream.task_calls import ModelCalls, TaskCalls

_NO_CALLS = ModelCalls()


def _equal(_tenant: str) -> float:
    return 1.0


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
        found: how many slots each of them has found the server to have, of those that have.
        task: this one.
        wanted: of each task that asks it, and of this one, how many slots each tenant could use.
            Empty: no other task asks it.
        weight_of: a tenant's weight.
        tasks: how many there are, with this one, where others may ask it and haven't told yet. 1:
            all have.
    """

    running: int = 0
    answered: int = 0
    prompts: int = 0
    delay: float = 0.0
    found: tuple[int, ...] = ()
    task: str = ""
    wanted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    weight_of: Callable[[str], float] = _equal
    tasks: int = 1

    @classmethod
    def of(
        cls,
        model: str,
        own: TaskCalls,
        rows: Iterable[TaskCalls],
        weight_of: Callable[[str], float] = _equal,
        asked_before: bool = True,
    ) -> Self:
        """What they ask of a model.

        Args:
            own: this task's row, which is left out of `rows`.
            asked_before: whether it has had calls of the model for a second. Otherwise others may
                not have told yet how many they want.
        """
        others = [row for row in rows if row.task != own.task]
        found = [(row.task, row.calls[model]) for row in others if model in row.calls]
        if not found:
            # Who is asked next may be asked together with the others.
            alone = asked_before and model in own.calls
            return cls() if alone else cls(tasks=len(others) + 1)
        calls = [calls for _, calls in found]
        return cls(
            sum(it.running for it in calls),
            sum(it.answered for it in calls),
            sum(it.prompts for it in calls),
            sum(it.delay for it in calls) / (len(found) + 1),
            tuple(it.slots for it in calls if it.slots is not None),
            own.task,
            {own.task: own.calls.get(model, _NO_CALLS).wanted}
            | {task: it.wanted for task, it in found},
            weight_of,
            1 if asked_before else len(others) + 1,
        )

    @property
    def slots(self) -> int | None:
        """The fewest slots that any of them has found. None: none has."""
        return min(self.found, default=None)

    def divide(self, slots: int) -> Division:
        """What of a server's slots is for this task."""
        equal = max(1, slots // self.tasks)
        if not self.wanted:
            return Division(equal)
        division = divide_slots(slots, self.task, self.wanted, self.weight_of)
        return division._replace(part=min(equal, division.part))

    def any_waits(self, counts: Callable[[str], bool]) -> bool:
        """Whether tenants that count wait at other tasks: they want more calls than run there."""
        wants = (of.items() for task, of in self.wanted.items() if task != self.task)
        return sum(n for of in wants for tenant, n in of if counts(tenant)) > self.running

    def equal_part(self, amount: int) -> int:
        """This task's part of an amount that all divide equally. All parts together are all."""
        if not self.wanted:
            return max(1, amount // self.tasks)
        place, tasks = sorted(self.wanted).index(self.task), len(self.wanted)
        return amount * (place + 1) // tasks - amount * place // tasks
