"""Supervises several handlers on one machine behind one port: starts, restarts and stops them."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Protocol

from evenflow.fargate_handler.gateway.connections.processes import (
    ALIVE_SECONDS,
    LEAVE,
    SERVING,
    STAND_DOWN,
    STAND_IN,
    ProcessIdentity,
)
from evenflow.fargate_handler.runtime.background import Background
from evenflow.fargate_handler.runtime.leave import Leave
from evenflow.stream_core.bounds.log_rate import EACH

_logger = logging.getLogger("evenflow.process")

HANDLER = "evenflow.fargate_handler"
"""The module that each process runs."""

_Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]

WRONG_CONFIGURATION = 2
"""The exit status of a process that found and logged a wrong configuration."""

# A process that lived longer did not end because of a fault at its start.
_PROVEN_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 5.0
# A process that serves and is silent for longer is killed. Starved to 8 % of a core it was silent
# for 8 s.
_FROZEN_SECONDS = 15.0


class Child(Protocol):
    """One of the processes."""

    async def until_serving(self) -> bool:
        """Wait until it serves. Returns False if it ends before that."""

    async def ended(self) -> int:
        """Wait for its end. Returns its exit status; a negative one is the signal that ended it."""

    def leave(self) -> None:
        """Ask it to leave in order."""

    def hurry(self) -> None:
        """Have it leave at once."""

    def heard(self) -> bool:
        """Whether it has sent anything since the last call."""

    def kill(self) -> None:
        """End it, though it may be frozen."""

    def reload(self) -> None:
        """Have it read its agents again, now or when it serves."""

    def stand_in(self, number: int) -> None:
        """Have it accept the connections of a process that has ended."""

    def stand_down(self, number: int) -> None:
        """Another process serves again."""


class Supervisor:
    """Keeps processes running until the request to leave.

    Args:
        count: how many processes.
        spawn: starts the process with a number, from 0.
        sleep, monotonic: in seconds.
    """

    def __init__(
        self,
        count: int,
        spawn: Callable[[int], Awaitable[Child]],
        leave: Leave,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._numbers = range(count)
        self._spawn = spawn
        self._leave = leave
        self._sleep = sleep
        self._monotonic = monotonic
        self._children: dict[int, Child] = {}

    async def run(self, description: str) -> int:
        """Run until all processes have ended.

        Args:
            description: what they serve, for the log.

        Returns:
            The exit status: 0 after all have left in order. If one ends before it has served for
            the first time, the others end too: 2 if it found the configuration wrong, otherwise 1.
            1 also if one did not leave in order.
        """
        background = Background()
        supervising = background.run(self._supervise(description))
        leaving = background.run(self._leave.asked.wait())
        background.run(self._hurry_when_insisted())
        try:
            await asyncio.wait((supervising, leaving), return_when=asyncio.FIRST_COMPLETED)
            if supervising.done():
                return supervising.result()
            supervising.cancel()
            await asyncio.wait((supervising,))
            _logger.info(
                "leaving: running answers finish where they can; a second signal leaves at once"
            )
            return await self._leave_together()
        finally:
            self._hurry()
            await asyncio.gather(*(child.ended() for child in self._children.values()))
            await background.aclose()

    def reload(self) -> None:
        """Have all processes read the agents again."""
        for child in self._children.values():
            child.reload()

    async def _supervise(self, description: str) -> int:
        """Start all, and keep them running. Returns the exit status if the start fails."""
        # One starts alone: a fault of all is logged once, and no port is open yet.
        for batch in (self._numbers[:1], self._numbers[1:]):
            started = await asyncio.gather(*map(self._start, batch))
            serving = await asyncio.gather(*(child.until_serving() for child in started))
            if not all(serving):
                return await self._failed_start(serving.index(False) + batch[0])
        _logger.info("serving %s; Ctrl-C leaves", description)
        await asyncio.gather(*map(self._keep, self._numbers))
        raise AssertionError("processes are kept running forever")

    async def _failed_start(self, number: int) -> int:
        status = await self._children.pop(number).ended()
        if status == WRONG_CONFIGURATION:
            return status
        _logger.error(
            "process %d ended with status %d before it served; the start is given up",
            number,
            status,
        )
        return 1

    async def _start(self, number: int) -> Child:
        child = self._children[number] = await self._spawn(number)
        return child

    async def _keep(self, number: int) -> None:
        """Start this process again whenever it ends."""
        failures = 0
        while True:
            began = self._monotonic()
            status = await self._ended(number)
            lived = self._monotonic() - began
            failures = 1 if lived >= _PROVEN_SECONDS else failures + 1
            pause = _pause(failures)
            _logger.error(
                "process %d ended with status %d after %.0f s; it is started again%s",
                number, status, lived, f" in {pause:g} s" if pause else "", extra=EACH,
            )  # fmt: skip
            await self._sleep(pause)
            child = await self._start(number)
            if await child.until_serving():
                for other in self._others(number):
                    other.stand_down(number)

    async def _ended(self, number: int) -> int:
        """Wait for the end of a process, and have the others accept its connections.

        One that is frozen is ended: the kernel goes on giving it connections.
        """
        child = self._children[number]
        watching = asyncio.ensure_future(self._kill_when_frozen(number, child))
        try:
            status = await child.ended()
        finally:
            watching.cancel()
        del self._children[number]
        for other in self._others(number):
            other.stand_in(number)
        return status

    async def _kill_when_frozen(self, number: int, child: Child) -> None:
        # Counted in looks: while this process is suspended, too, no child is silent.
        silent = 0
        while silent * ALIVE_SECONDS < _FROZEN_SECONDS:
            await self._sleep(ALIVE_SECONDS)
            silent = 0 if child.heard() else silent + 1
        _logger.error(
            "process %d has not turned its event loop for %.0f s; it is killed: its clients "
            "come back to the others, which go on with its answers",
            number, _FROZEN_SECONDS, extra=EACH,
        )  # fmt: skip
        child.kill()

    def _others(self, number: int) -> list[Child]:
        return [child for its_number, child in self._children.items() if its_number != number]

    async def _leave_together(self) -> int:
        for child in self._children.values():
            child.leave()
        statuses = await asyncio.gather(*map(self._ended, tuple(self._children)))
        # The signal ends a process that doesn't serve yet.
        in_order = all(status in (0, -signal.SIGTERM) for status in statuses)
        if not in_order:
            _logger.error("the processes did not all leave in order: statuses %s", statuses)
        return 0 if in_order else 1

    async def _hurry_when_insisted(self) -> None:
        await self._leave.insisted.wait()
        self._hurry()

    def _hurry(self) -> None:
        for child in self._children.values():
            child.hurry()


def _pause(failures: int) -> float:
    """Seconds until the restart of a process that ended `failures` times soon after its start."""
    if failures == 1:
        return 0.0
    return min(_FIRST_PAUSE_SECONDS * 2.0 ** (failures - 2), _LONGEST_PAUSE_SECONDS)


class HandlerProcess:
    """A handler as a process of its own (`Child`), and the line to it.

    On the line it reports that it serves, and forwards a request that all leave. When the line
    ends it leaves at once, so it does not outlive this process.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, line: _Line, ask_to_leave: Callable[[], None]
    ) -> None:
        self._process = process
        self._reader, self._writer = line
        self._ask_to_leave = ask_to_leave
        self._serving = asyncio.Event()
        self._reads_agents = self._heard = False
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def until_serving(self) -> bool:
        # The line ends with the process.
        await asyncio.wait(
            (asyncio.ensure_future(self._serving.wait()), self._listening),
            return_when=asyncio.FIRST_COMPLETED,
        )
        return self._serving.is_set()

    async def ended(self) -> int:
        return await self._process.wait()

    def leave(self) -> None:
        self._signal(signal.SIGTERM)

    def hurry(self) -> None:
        self._writer.close()

    def heard(self) -> bool:
        heard, self._heard = self._heard, False
        return heard

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def reload(self) -> None:
        if self._serving.is_set():
            self._signal(signal.SIGHUP)
        else:
            self._reads_agents = True

    def stand_in(self, number: int) -> None:
        if self._serving.is_set():
            self._writer.write(b"%b %d\n" % (STAND_IN, number))

    def stand_down(self, number: int) -> None:
        if self._serving.is_set():
            self._writer.write(b"%b %d\n" % (STAND_DOWN, number))

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _listen(self) -> None:
        with suppress(ConnectionError):  # it ended with something unread
            async for line in self._reader:
                self._heard = True
                if line == SERVING:
                    self._serving.set()
                    if self._reads_agents:
                        self.reload()
                elif line == LEAVE:
                    self._ask_to_leave()


async def start_handler(
    identity: ProcessIdentity,
    sockets: Sequence[Sequence[socket.socket]],
    ask_to_leave: Callable[[], None],
) -> HandlerProcess:
    """Start the handler process with this identity.

    Args:
        sockets: the listening sockets of each process, by number. All processes have them all: when
            one is killed, the others accept the connections that wait in its queues.
        ask_to_leave: called on a request at this handler that all leave.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        descriptors = tuple(tuple(each.fileno() for each in own) for own in sockets)
        process_identity = identity.model_copy(
            update={
                "line": theirs.fileno(),
                "listening": descriptors,
            }
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", HANDLER, "--process", process_identity.model_dump_json()),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=(process_identity.line, *chain(*process_identity.listening)),
            # A terminal signals all of its processes, and each would take that as a second signal.
            start_new_session=True,
        )
    return HandlerProcess(process, await asyncio.open_connection(sock=ours), ask_to_leave)
