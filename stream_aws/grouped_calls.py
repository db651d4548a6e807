"""Calls for one partition, of which those that wait are made together."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

Asked = TypeVar("Asked")
Outcome = TypeVar("Outcome")


@dataclass(eq=False, slots=True)
class _Waiting(Generic[Asked, Outcome]):
    asked: Asked
    outcome: Outcome | Exception | None = None
    done: bool = False


@dataclass(slots=True)
class _Line(Generic[Asked, Outcome]):
    """What waits for one partition, in its order."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[_Waiting[Asked, Outcome]] = field(default_factory=list)


class GroupedCalls(Generic[Asked, Outcome]):
    """Makes one call at a time for each partition, for all that waits there.

    All of them change the same rows, so calls at once would only be in each other's way.

    Args:
        call: is given a partition and what waits there. Returns an outcome for each, or its error.
        most: how many a call may be given.
        pause: seconds before a partition's next call. It takes what comes meanwhile.
    """

    def __init__(
        self,
        call: Callable[[str, Sequence[Asked]], Awaitable[Sequence[Outcome | Exception]]],
        most: int,
        pause: Callable[[str], float] = lambda _: 0.0,
    ) -> None:
        self._call = call
        self._most = most
        self._pause = pause
        self._lines: defaultdict[str, _Line[Asked, Outcome]] = defaultdict(_Line)

    async def do(self, partition: str, asked: Asked) -> Outcome:
        """Do it with what else waits. Returns its outcome.

        Raises:
            Exception: its own error, or that of the call.
        """
        line, own = self._lines[partition], _Waiting[Asked, Outcome](asked)
        line.waiting.append(own)
        try:
            async with line.turn:
                # Whoever had the turn before may have done this one too.
                while not own.done:
                    await self._do_first(partition, line)
        finally:
            if own in line.waiting:
                line.waiting.remove(own)
            if not line.waiting and not line.turn.locked():
                self._lines.pop(partition, None)
        if isinstance(own.outcome, Exception):
            raise own.outcome
        return cast("Outcome", own.outcome)

    async def _do_first(self, partition: str, line: _Line[Asked, Outcome]) -> None:
        if seconds := self._pause(partition):
            await asyncio.sleep(seconds)
        group = line.waiting[: self._most]
        outcomes: Sequence[Outcome | Exception]
        try:
            outcomes = await self._call(partition, [each.asked for each in group])
        except Exception as error:
            outcomes = [error] * len(group)
        for each, outcome in zip(group, outcomes, strict=True):
            each.outcome, each.done = outcome, True
        line.waiting = [each for each in line.waiting if not each.done]
