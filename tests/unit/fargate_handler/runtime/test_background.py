from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.runtime import background as module
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.base.errors import Overloaded
from tests.unit.settle import settle


async def test_it_ends_what_runs_and_returns_when_that_has_ended() -> None:
    background, ended = Background(), list[str]()

    async def work(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    for name in ("a", "b"):
        background.run(work(name))
    await settle()
    await background.aclose()
    assert sorted(ended) == ["a", "b"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_running_work_begins_while_it_ends_is_ended_too() -> None:
    background = Background()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            background.run(asyncio.Event().wait())

    background.run(work())
    await settle()
    await background.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_behind_its_end_nothing_begins() -> None:
    background, begun = Background(), list[bool]()

    async def work() -> None:
        begun.append(True)

    await background.aclose()
    task = background.run(work())
    await settle()
    assert task.cancelled()
    assert begun == []


async def test_work_that_does_not_end_is_told_of_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.0)
    background, release = Background(), asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    task = background.run(stubborn())
    await settle()
    await background.aclose()
    assert "don't end" in caplog.text
    release.set()
    await task


async def test_what_fails_is_logged_but_for_what_its_caller_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background = Background()

    async def fail(error: Exception) -> None:
        raise error

    for error in (Overloaded("busy", code="queue_full"), RuntimeError("a fault")):
        task = background.run(fail(error))
        await settle()
        assert task.exception() is error
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]
