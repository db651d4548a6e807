from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.scale_in_protection import ScaleInProtection


class Refused(Exception):
    """What ECS doesn't do."""


class Ecs:
    """ECS, in its own time: protection ends by itself."""

    def __init__(self) -> None:
        self.now = 0.0
        self.protected_until = 0.0
        self.surplus = False
        self.calls: list[str] = []
        self.refusing = False
        self.losing_answers = False

    @property
    def protects(self) -> bool:
        return self.now < self.protected_until

    async def protect(self, minutes: int) -> None:
        self._called("protect")
        self.protected_until = self.now + 60 * minutes
        self._answer()

    async def release(self) -> None:
        self._called("release")
        self.protected_until = 0.0
        self._answer()

    async def is_surplus(self) -> bool:
        self._called("is_surplus")
        return self.surplus

    def _called(self, call: str) -> None:
        self.calls.append(call)
        if self.refusing:
            raise Refused(call)

    def _answer(self) -> None:
        if self.losing_answers:
            raise TimeoutError


class Task:
    """A task that looks once a second."""

    def __init__(self) -> None:
        self.ecs = Ecs()
        self.ecs.now = 1000.0
        self.busy = False
        self.protection = ScaleInProtection(self.ecs, self.ecs.is_surplus, lambda: self.busy)

    async def look_for(self, seconds: int) -> list[bool]:
        """Whether it is protected after each look."""
        protected = []
        for _ in range(seconds):
            self.ecs.now += 1.0
            await self.protection.look(self.ecs.now)
            protected.append(self.ecs.protects)
        return protected


@pytest.fixture
def task() -> Task:
    return Task()


async def test_an_idle_task_asks_nothing(task: Task) -> None:
    assert not any(await task.look_for(300))
    assert task.ecs.calls == []


async def test_a_busy_task_is_protected_without_a_gap_and_a_few_calls_a_minute(task: Task) -> None:
    task.busy = True
    assert all(await task.look_for(1200))
    assert task.ecs.calls.count("protect") <= 1200 / 45 + 1
    assert task.ecs.calls.count("is_surplus") <= 1200 / 30 + 1


async def test_it_is_given_up_seconds_after_the_last_answer(task: Task) -> None:
    task.busy = True
    await task.look_for(10)
    task.busy = False
    protected = await task.look_for(20)
    assert protected[0]
    assert not any(protected[6:])
    assert task.ecs.calls.count("release") == 1


async def test_a_load_that_blinks_does_not_call_each_time(task: Task) -> None:
    for _ in range(60):
        task.busy = not task.busy
        assert all(await task.look_for(1))
    assert "release" not in task.ecs.calls
    assert task.ecs.calls.count("protect") <= 2


async def test_it_is_not_held_against_what_ecs_has_to_do(task: Task) -> None:
    task.busy = True
    await task.look_for(10)
    task.ecs.surplus = True
    assert not any((await task.look_for(120))[61:])
    task.ecs.surplus = False
    assert all((await task.look_for(120))[61:])


async def test_a_task_that_becomes_busy_asks_before_it_takes_it(task: Task) -> None:
    task.ecs.surplus = True
    task.busy = True
    assert not any(await task.look_for(300))
    assert "protect" not in task.ecs.calls


async def test_a_refusal_is_said_once_and_tried_again_seldom(
    task: Task, caplog: pytest.LogCaptureFixture
) -> None:
    task.busy = task.ecs.refusing = True
    await task.look_for(120)
    assert 120 / 20 <= task.ecs.calls.count("protect") <= 120 / 10 + 1
    assert len(caplog.records) == 2  # one for each of the two things that ECS is asked
    task.ecs.refusing = False
    assert all((await task.look_for(120))[21:])


async def test_a_renewal_that_fails_once_leaves_no_gap(task: Task) -> None:
    task.busy = True
    await task.look_for(44)
    task.ecs.refusing = True
    while task.ecs.calls.count("protect") < 2:
        assert all(await task.look_for(1))
    task.ecs.refusing = False
    assert all(await task.look_for(300))


async def test_what_ecs_did_and_could_not_say_is_given_up_too(task: Task) -> None:
    task.busy = task.ecs.losing_answers = True
    await task.look_for(1)
    assert task.ecs.protects
    task.busy = task.ecs.losing_answers = False
    assert not any((await task.look_for(30))[25:])
    assert "release" in task.ecs.calls


async def test_giving_up_is_tried_until_it_would_have_ended_by_itself(task: Task) -> None:
    task.busy = True
    await task.look_for(10)
    task.ecs.refusing, task.busy = True, False
    await task.look_for(120)
    tried = task.ecs.calls.count("release")
    assert tried > 1
    await task.look_for(300)
    assert task.ecs.calls.count("release") == tried


async def test_a_task_that_leaves_gives_it_up(task: Task) -> None:
    task.busy = True
    keeping = asyncio.create_task(task.protection.keep())
    await asyncio.sleep(0)
    assert task.ecs.protects
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert task.ecs.calls[-1] == "release"
    assert not task.ecs.protects
