"""One reader of one answer: it connects, reads, comes back after every break, and ends with the
answer.
"""

from __future__ import annotations

import asyncio
from random import Random
from time import monotonic

from tests.chaos import http_turns, websocket_turn
from tests.chaos.answer import Answer
from tests.chaos.answer_check import Kind
from tests.chaos.behaviour import Behaviour, Transport, any_transport
from tests.chaos.outcome import Backoff, Cause, Outcome

_TURNS = {
    Transport.V1: websocket_turn.read,
    Transport.COMPACT: websocket_turn.read,
    Transport.SSE: http_turns.read_events,
    Transport.POLL: http_turns.poll,
}


class Reader:
    """A tab, say.

    Args:
        asks: whether it sends the message; the others read what it got.
    """

    def __init__(self, answer: Answer, behaviour: Behaviour, random: Random, *, asks: bool) -> None:
        self.answer = answer
        self.session = answer.session
        self.behaviour = behaviour
        self.transport = behaviour.transport
        self.random = random
        self.asks = asks
        self.check = answer.new_check()
        self._returning: tuple[Cause, float] | None = None
        self._recovered = False

    @property
    def failed(self) -> bool:
        """Whether going on makes no sense."""
        return any(problem.kind in (Kind.LOST, Kind.UNFINISHED) for problem in self.check.problems)

    async def read_to_end(self, until: float) -> None:
        """Read until the answer has ended, or give up at `until`."""
        backoff = Backoff(self.random)
        while not (self.check.ended or self.failed):
            try:
                async with asyncio.timeout_at(until):
                    outcome = await _TURNS[self.transport](self)
                    await self._pause(backoff, outcome)
            except TimeoutError:
                self.check.problem(
                    Kind.UNFINISHED,
                    f"no end {monotonic() - self.answer.began_at:.0f} s after the question",
                )

    async def _pause(self, backoff: Backoff, outcome: Outcome) -> None:
        self.answer.window.turns[outcome.cause] += 1
        if outcome.code:
            self.answer.window.refusals[outcome.code] += 1
        if self.check.ended:
            return
        self.check.note("client", outcome)
        await asyncio.sleep(backoff.seconds(outcome))
        if outcome.cause is Cause.OWN:
            self._move()
        if self.answer.response_id is not None and self._returning is None:
            self._returning = (outcome.cause, monotonic())

    def _move(self) -> None:
        if self.behaviour.drops_cookie:
            self.session.cookie.node_id = ""
        if self.behaviour.switches:
            self.transport = any_transport(self.random)

    # -- what a turn tells -------------------------------------------------------------------------

    def arrived(self, *, timely: bool = True) -> None:
        """A first sign of the answer came on this connection; not `timely`: a poll, which
        lingers.
        """
        if self._returning is not None:
            cause, since = self._returning
            self._returning = None
            if timely:
                self.answer.window.resumed(cause, monotonic() - since)

    def progressed(self) -> None:
        """New text came."""
        lost = self.answer.lost_owner
        if lost is not None and not self._recovered and self.check.epoch > lost[1]:
            self._recovered = True
            if self.transport is not Transport.POLL:  # which lingers by the contract
                self.answer.window.recoveries.append(monotonic() - lost[0])
