"""The load: so many answers in flight at any time, each of them asked for and read by a client
of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from time import monotonic

from tests.chaos.answer import Answer
from tests.chaos.behaviour import Behaviour, any_behaviour, any_transport
from tests.chaos.outcome import Backoff, Cause, Outcome
from tests.chaos.plan import Plan
from tests.chaos.reader import Reader
from tests.chaos.script import Script
from tests.chaos.session import ChaosSession, Sessions
from tests.chaos.waiting import end, until
from tests.chaos.window import Window

_SLOW_TOKEN_CHARACTERS = 4_096
_A_TAB_OPENS_AFTER = (0.5, 6.0)
_REPLAY_TRIES = 5


class Load:
    """Sessions that ask, answer after answer.

    Args:
        on_problem: is told an answer with problems, when it is over.
    """

    def __init__(
        self, plan: Plan, sessions: Sessions, window: Window, on_problem: Callable[[Answer], None]
    ) -> None:
        self.window = window
        """What new answers count for."""
        self.wanted = 0
        """How many answers should be in flight."""
        self._plan = plan
        self._sessions = sessions
        self._on_problem = on_problem
        self._random = Random(plan.seed)
        self._running: set[asyncio.Task[None]] = set()
        self._answers: set[Answer] = set()
        self._opened = 0
        self.deltas_of_ended = 0

    @property
    def in_flight(self) -> list[Answer]:
        """The answers whose message is accepted."""
        return [answer for answer in self._answers if answer.response_id is not None]

    @property
    def deltas(self) -> int:
        """Frames with text that came so far."""
        return self.deltas_of_ended + sum(
            check.deltas for answer in self._answers for check in answer.checks
        )

    async def keep_up(self) -> None:
        """Begin sessions as others end, at an even pace, until cancelled."""
        pace = self._plan.answers / self._plan.ramp_seconds
        while True:
            if len(self._running) < self.wanted:
                self._begin_session()
            await asyncio.sleep(1 / pace)

    async def until_ended(self, answers: list[Answer], seconds: float) -> None:
        """Wait for these answers to be over, or for so long."""
        await until(lambda: self._answers.isdisjoint(answers), seconds)

    async def until_idle(self, seconds: float) -> None:
        """Ask nothing more, and wait for all that was asked to be over, or for so long."""
        self.wanted = 0
        await until(lambda: not self._answers, seconds)

    def strike(self, window: Window) -> list[Answer]:
        """A fault is about to strike: whatever is in flight counts for it from now on.

        Returns that.
        """
        self.window = window
        for answer in self._answers:
            answer.window = window
        struck = self.in_flight
        window.in_flight = len(struck)
        return struck

    def lose_owner(self, node_id: str) -> int:
        """A node was killed: mark what it was answering; returns how much that is."""
        lost = [answer for answer in self.in_flight if answer.owner == node_id]
        for answer in lost:
            answer.lost_owner = (monotonic(), max(check.epoch for check in answer.checks))
        return len(lost)

    async def stop(self) -> None:
        """End every session, wherever it is."""
        self.wanted = 0
        await end(tuple(self._running))

    async def replay_all(self) -> list[str]:
        """Send the message of every answer in flight again, to any node; returns which of them
        didn't get their response.
        """
        asked = [self._replay(answer) for answer in self.in_flight]
        return [wrong for wrong in await asyncio.gather(*asked) if wrong]

    # -- sessions ----------------------------------------------------------------------------------

    def _begin_session(self) -> None:
        self._opened += 1
        session = self._sessions.open(f"ses_{self._plan.run}{self._opened:012d}")
        random = Random(f"{self._plan.seed}:{self._opened}")
        task = asyncio.create_task(self._converse(session, any_behaviour(random), random))
        self._running.add(task)
        task.add_done_callback(self._session_ended)

    def _session_ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error  # a defect of the harness: the loop's exception handler ends the run

    async def _converse(self, session: ChaosSession, behaviour: Behaviour, random: Random) -> None:
        previous = None
        for number in range(behaviour.questions):
            if not self.wanted:
                return
            message_id = f"m{number}"
            gap_ms = random.randint(*self._plan.gap_ms)
            tokens = round(1000 * random.uniform(*self._plan.answer_seconds) / gap_ms)
            size = _SLOW_TOKEN_CHARACTERS if behaviour.slow else random.randint(8, 24)
            script = Script(
                f"{self._plan.run}.{session.session_id[-8:]}.{number}", tokens, gap_ms, size
            )
            answer = Answer(session, message_id, previous, script, self.window)
            await self._read(answer, behaviour, random)
            previous = message_id

    async def _read(self, answer: Answer, behaviour: Behaviour, random: Random) -> None:
        self._answers.add(answer)
        give_up_at = (
            asyncio.get_running_loop().time() + answer.script.seconds + self._plan.patience_seconds
        )
        try:
            async with asyncio.TaskGroup() as readers:
                readers.create_task(
                    Reader(answer, behaviour, random, asks=True).read_to_end(give_up_at)
                )
                for number in range(behaviour.tabs):
                    tab_random = Random(f"{answer.script.key}:{number}")
                    readers.create_task(self._open_tab(answer, tab_random, give_up_at))
        finally:
            self._answers.discard(answer)
        self._count(answer)

    async def _open_tab(self, answer: Answer, random: Random, give_up_at: float) -> None:
        await asyncio.sleep(random.uniform(*_A_TAB_OPENS_AFTER))
        seconds_left = give_up_at - asyncio.get_running_loop().time()
        if await until(lambda: answer.response_id is not None, seconds_left):
            await Reader(answer, Behaviour(any_transport(random)), random, asks=False).read_to_end(
                give_up_at
            )

    def _count(self, answer: Answer) -> None:
        window = answer.window
        window.answers += 1
        if answer.response_id is not None:
            window.response_ids.add(answer.response_id)
        for check in answer.checks:
            window.count(check)
            self.deltas_of_ended += check.deltas
        if any(check.problems for check in answer.checks):
            self._on_problem(answer)

    async def _replay(self, answer: Answer) -> str | None:
        said = None
        for wait in _waits(Random(answer.script.key)):
            await asyncio.sleep(wait)
            try:
                said = await answer.session.call(
                    "POST", "/chat/message", answer.message, anywhere=True
                )
            except (OSError, TimeoutError):
                continue
            if said.status not in (429, 503):
                break
        if said is None:
            return None
        got = said.body.get("response_id") or said.body.get("error", {}).get("response_id")
        return (
            None
            if got == answer.response_id
            else f"{answer.message_id} of {answer.response_id}: {said}"
        )


def _waits(random: Random) -> Iterator[float]:
    yield random.uniform(0, 2)
    backoff = Backoff(random)
    for _ in range(_REPLAY_TRIES - 1):
        yield backoff.seconds(Outcome(Cause.CUT))
