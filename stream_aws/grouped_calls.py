"""Joins the pending calls for one partition into one call."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

Request = TypeVar("Request")
Outcome = TypeVar("Outcome")


@dataclass(eq=False, slots=True)
class _PendingCall(Generic[Request, Outcome]):
    request: Request
    outcome: Outcome | Exception | None = None
    done: bool = False


@dataclass(slots=True)
class _Partition(Generic[Request, Outcome]):
    """The pending calls for one partition, in their order."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    pending: list[_PendingCall[Request, Outcome]] = field(default_factory=list)


class GroupedCalls(Generic[Request, Outcome]):
    """Makes one call at a time for each partition, for all that is pending there.

    All calls for a partition change the same rows, so concurrent ones would conflict.

    Args:
        call: takes a partition and its pending requests. Returns an outcome or error for each.
        most: the largest number of requests in a call.
        pause: seconds before a partition's next call. It includes the requests that come meanwhile.
    """

    def __init__(
        self,
        call: Callable[[str, Sequence[Request]], Awaitable[Sequence[Outcome | Exception]]],
        most: int,
        pause: Callable[[str], float] = lambda _: 0.0,
    ) -> None:
        self._call = call
        self._most = most
        self._pause = pause
        self._partitions: defaultdict[str, _Partition[Request, Outcome]] = defaultdict(_Partition)

    async def do(self, partition: str, request: Request) -> Outcome:
        """Make the call together with other pending ones. Returns its outcome.

        Raises:
            Exception: its own error, or that of the call.
        """
        partition_calls, call = self._partitions[partition], _PendingCall[Request, Outcome](request)
        partition_calls.pending.append(call)
        try:
            async with partition_calls.lock:
                # The previous holder of the lock may have made this call too.
                while not call.done:
                    await self._do_first(partition, partition_calls)
        finally:
            if call in partition_calls.pending:
                partition_calls.pending.remove(call)
            if not partition_calls.pending and not partition_calls.lock.locked():
                self._partitions.pop(partition, None)
        if isinstance(call.outcome, Exception):
            raise call.outcome
        return cast("Outcome", call.outcome)

    async def _do_first(
        self, partition: str, partition_calls: _Partition[Request, Outcome]
    ) -> None:
        if seconds := self._pause(partition):
            await asyncio.sleep(seconds)
        group = partition_calls.pending[: self._most]
        outcomes: Sequence[Outcome | Exception]
        try:
            outcomes = await self._call(partition, [each.request for each in group])
        except Exception as error:
            outcomes = [error] * len(group)
        for each, outcome in zip(group, outcomes, strict=True):
            each.outcome, each.done = outcome, True
        partition_calls.pending = [each for each in partition_calls.pending if not each.done]
