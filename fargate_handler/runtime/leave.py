"""The request to leave, and the signals that make it. A second signal skips the drain."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Leave:
    """The request to leave, by a signal, a call or a deactivation. A second signal insists."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()
        self._signalled = False
        self._watching: asyncio.Task[None] | None = None

    def signal(self) -> None:
        """Note a signal. The first one after a deactivation doesn't insist: the drain goes on."""
        if self._signalled:
            self.insisted.set()
        self._signalled = True
        self.asked.set()

    def ask(self) -> None:
        """Leave, on the request of a process on this machine."""
        self.asked.set()

    def at_once(self) -> None:
        """Leave without waiting for answers."""
        self.asked.set()
        self.insisted.set()

    def when(self, reason: Coroutine[Any, Any, None], ask: Callable[[], None]) -> None:
        """Call `ask`, which asks to leave, when `reason` returns."""
        self._watching = asyncio.get_running_loop().create_task(_ask_after(reason, ask))

    def stop(self) -> None:
        """Stop waiting for the other reason."""
        if self._watching is not None:
            self._watching.cancel()


@contextmanager
def signals(leave: Leave) -> Iterator[None]:
    """Leave on SIGTERM and SIGINT."""
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, leave.signal)
    try:
        yield
    finally:
        # A signal that comes while the process ends, also between these two calls, would otherwise
        # kill it with a wrong exit status.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


async def _ask_after(reason: Coroutine[Any, Any, None], ask: Callable[[], None]) -> None:
    await reason
    ask()
