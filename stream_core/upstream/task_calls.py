"""The port by which tasks tell each other which calls they make, and who asks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self

from pydantic import BaseModel

KEPT_SECONDS = 10.0
"""How long a row is kept after it was written. A task that tells nothing for so long has left."""


class ModelCalls(BaseModel, frozen=True):
    """One task's calls of one model.

    Args:
        running: that were made and have not ended.
        answered: those of them that have a token.
        prompts: tokens of the prompts of those that have none.
        wanted: by tenants, how many calls run or wait. Of the tenants with most, 50 at most.
        delay: of a first token, by each token of a prompt ahead of it, in seconds. 0: none is
            certain.
        slots: the most calls that the model's server answers at once, as this task has found. None:
            it has not.
    """

    running: int = 0
    answered: int = 0
    prompts: int = 0
    wanted: Mapping[str, int] = {}
    delay: float = 0.0
    slots: int | None = None


class TaskCalls(BaseModel, frozen=True):
    """What one task does now.

    Args:
        asked: by tenants that it expects back, ten at most, how many questions they have asked it.
        calls: by the models' names at their servers. Without those that nobody asks.
    """

    task: str
    asked: Mapping[str, int] = {}
    calls: Mapping[str, ModelCalls] = {}

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `to_text` has written. What another version has added is left out."""
        return cls.model_validate_json(text)

    def to_text(self) -> str:
        """The row as JSON."""
        return self.model_dump_json()


class CallsOfTasks(Protocol):
    """One row a task. `now` is in seconds since the epoch.

    Every method may raise StoreUnavailable.
    """

    async def tell(self, row: TaskCalls, now: float) -> None:
        """Write this task's row over its earlier one. It expires after ten seconds."""

    async def all(self, now: float) -> Sequence[TaskCalls]:
        """The rows of all tasks that have not expired."""
