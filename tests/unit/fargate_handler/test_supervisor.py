"""Several processes under one supervisor, without a process: they start, are kept, and leave."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest

from evenflow.fargate_handler.runtime.leave import Leave
from evenflow.fargate_handler.supervisor import Supervisor
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle

KILLED = -signal.SIGKILL


class ScriptedChild:
    """A process that ends when the test says so."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_frozen = False
        self.looks = 0
        self._serving = asyncio.Event()
        self._status = asyncio.get_running_loop().create_future()

    async def until_serving(self) -> bool:
        serving = asyncio.ensure_future(self._serving.wait())
        await asyncio.wait((serving, self._status), return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        return self._serving.is_set()

    async def ended(self) -> int:
        status: int = await asyncio.shield(self._status)
        return status

    def leave(self) -> None:
        self.told.append("leave")

    def hurry(self) -> None:
        self.told.append("hurry")
        self.end(0)

    def heard(self) -> bool:
        self.looks += 1
        return not self.is_frozen

    def kill(self) -> None:
        self.told.append("kill")
        self.end(KILLED)

    def reload(self) -> None:
        self.told.append("reload")

    def stand_in(self, number: int) -> None:
        self.told.append(f"stand in for {number}")

    def stand_down(self, number: int) -> None:
        self.told.append(f"{number} is back")

    def serve(self) -> None:
        """It serves."""
        self._serving.set()

    def end(self, status: int) -> None:
        """It ends, unless it has."""
        if not self._status.done():
            self._status.set_result(status)


class Processes:
    """Three processes, their supervisor, and its time."""

    def __init__(self) -> None:
        self.clock = HandTurnedClock()
        self.clock.drive_timers()
        self.leave = Leave()
        self.spawned: list[tuple[int, ScriptedChild]] = []
        self.supervisor = Supervisor(3, self._spawn, self.leave, monotonic=self.clock.monotonic)
        self.run = asyncio.create_task(self.supervisor.run("here"))

    async def _spawn(self, number: int) -> ScriptedChild:
        self.spawned.append((number, ScriptedChild()))
        return self.spawned[-1][1]

    @property
    def numbers(self) -> list[int]:
        """Of all that were started, in that order."""
        return [number for number, _ in self.spawned]

    def latest(self, number: int) -> ScriptedChild:
        """The last one that was started with this number."""
        return [child for its_number, child in self.spawned if its_number == number][-1]

    @property
    def running(self) -> list[ScriptedChild]:
        """The last one of each number."""
        return [self.latest(number) for number in sorted(set(self.numbers))]

    async def start(self) -> None:
        """Until all serve."""
        for number in range(3):
            await settle()
            self.latest(number).serve()
        await settle()


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    processes = Processes()
    await settle()
    yield processes
    processes.leave.at_once()
    await processes.run


async def test_the_first_serves_before_the_others_are_started(processes: Processes) -> None:
    assert processes.numbers == [0]
    processes.latest(0).serve()
    await settle()
    assert processes.numbers == [0, 1, 2]


@pytest.mark.parametrize(("status", "exit_status"), [(2, 2), (KILLED, 1), (1, 1)])
async def test_a_first_one_that_ends_is_the_end_of_the_start(
    processes: Processes, status: int, exit_status: int
) -> None:
    processes.latest(0).end(status)
    assert await processes.run == exit_status
    assert processes.numbers == [0], "it is not tried again"


async def test_when_one_of_the_others_does_not_start_none_stays(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    processes.latest(0).serve()
    await settle()
    processes.latest(2).end(KILLED)
    processes.latest(1).serve()
    assert await processes.run == 1
    assert processes.latest(0).told == processes.latest(1).told == ["hurry"]
    assert "process 2 ended with status -9 before it served" in caplog.text


async def test_one_that_ends_is_started_again_at_once(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    await processes.start()
    processes.latest(1).end(KILLED)
    await settle()
    assert processes.numbers == [0, 1, 2, 1]
    assert "process 1 ended with status -9 after 0 s; it is started again" in caplog.text


async def test_the_others_accept_in_its_place_until_it_serves_again(processes: Processes) -> None:
    await processes.start()
    processes.latest(1).end(KILLED)
    await settle()
    others = processes.latest(0), processes.latest(2)
    assert [child.told for child in others] == [["stand in for 1"]] * 2
    processes.latest(1).serve()
    await settle()
    assert [child.told for child in others] == [["stand in for 1", "1 is back"]] * 2
    assert processes.latest(1).told == []


async def test_one_that_is_frozen_is_killed_and_started_again(processes: Processes) -> None:
    """The kernel gives it connections, and each would hang for as long as it is frozen."""
    await processes.start()
    frozen = processes.latest(1)
    frozen.is_frozen = True
    await processes.clock.pass_time(14.0)
    frozen.is_frozen = False
    await processes.clock.pass_time(2.0)
    frozen.is_frozen = True
    await processes.clock.pass_time(14.0)
    assert frozen.told == []
    await processes.clock.pass_time(2.0)
    assert frozen.told == ["kill"]
    assert processes.numbers == [0, 1, 2, 1]
    assert [child.told for child in processes.running if "kill" in child.told] == []


async def test_one_that_leaves_is_watched_by_one_look_a_second(processes: Processes) -> None:
    """A second look in the same second would hear nothing, and kill a process that drains."""
    await processes.start()
    await processes.clock.pass_time(3.0)
    processes.leave.ask()
    await settle()
    before = processes.latest(0).looks
    await processes.clock.pass_time(10.0)
    assert processes.latest(0).looks - before in (9, 10)


async def test_one_that_ends_again_and_again_is_started_less_and_less_often(
    processes: Processes,
) -> None:
    await processes.start()
    pauses = []
    for _ in range(8):
        before, began = len(processes.spawned), processes.clock.now
        processes.latest(1).end(KILLED)
        await settle()
        while len(processes.spawned) == before:
            await processes.clock.pass_time(0.5, step=0.5)
        pauses.append(processes.clock.now - began)
    assert pauses == [0, 0.5, 1, 2, 4, 5, 5, 5]
    # One that has served for a while is started at once again.
    processes.latest(1).serve()
    await settle()
    await processes.clock.pass_time(60, step=10)
    processes.latest(1).end(KILLED)
    await settle()
    assert len(processes.spawned) == 3 + 9


async def test_asked_to_leave_all_are_told_once_and_none_is_started_again(
    processes: Processes,
) -> None:
    await processes.start()
    processes.leave.signal()
    await settle()
    assert [child.told for child in processes.running] == [["leave"]] * 3
    for number in range(3):
        assert not processes.run.done()
        processes.latest(number).end(0)
        await settle()
    assert await processes.run == 0
    # Clients that come meanwhile are told by those that are still there.
    assert processes.latest(2).told == ["leave", "stand in for 0", "stand in for 1"]
    assert processes.numbers == [0, 1, 2]


async def test_a_second_signal_hurries_all(processes: Processes) -> None:
    await processes.start()
    processes.leave.signal()
    await settle()
    processes.leave.signal()
    assert await processes.run == 0
    assert all(child.told[:2] == ["leave", "hurry"] for child in processes.running)


async def test_one_that_fails_while_it_leaves_is_told_by_the_exit_status(
    processes: Processes,
) -> None:
    await processes.start()
    processes.leave.signal()
    await settle()
    processes.latest(0).end(1)
    processes.latest(1).end(0)
    processes.latest(2).end(-signal.SIGTERM)  # it was not serving yet
    assert await processes.run == 1


async def test_asked_to_leave_while_one_waits_to_be_started_again(processes: Processes) -> None:
    await processes.start()
    for _ in range(2):
        processes.latest(1).end(KILLED)
        await settle()
    processes.leave.signal()
    await settle()
    processes.latest(0).end(0)
    processes.latest(2).end(0)
    assert await processes.run == 0
    assert processes.numbers == [0, 1, 2, 1]


async def test_asked_to_leave_at_the_start(processes: Processes) -> None:
    processes.leave.signal()
    await settle()
    assert processes.latest(0).told == ["leave"]
    processes.latest(0).end(-signal.SIGTERM)
    assert await processes.run == 0
    assert processes.numbers == [0]


async def test_all_are_told_to_read_their_agents(processes: Processes) -> None:
    await processes.start()
    processes.supervisor.reload()
    assert [child.told for child in processes.running] == [["reload"]] * 3
