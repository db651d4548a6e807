"""The probe that ECS runs in a worker's container, to learn whether it lives."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.inference import probe
from tests.integration.grpc_workers.conftest import Lines, Workers
from tests.integration.server_process import free_port


class Probe:
    """Runs it, beside the loop that the worker is in."""

    def __init__(self, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capsys = patch, capsys

    async def __call__(self, address: str) -> tuple[int, str]:
        """Its exit status, and what it says."""
        self._patch.setenv("EVENFLOW_WORKER_PORT", address.rpartition(":")[2])
        self._capsys.readouterr()
        return await asyncio.to_thread(probe.main), self._capsys.readouterr().err


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Probe:
    monkeypatch.setattr(probe, "_SECONDS", 0.5)
    return Probe(monkeypatch, capsys)


async def test_a_worker_that_answers_is_alive_and_one_that_hangs_is_not(
    probed: Probe, workers: Workers, lines: Lines
) -> None:
    line = await lines((await workers()).address)
    assert await probed(line.address) == (0, "")
    line.fall_silent()
    status, said = await probed(line.address)
    assert (status, "DEADLINE_EXCEEDED" in said) == (1, True)
    line.carry_on()
    assert await probed(line.address) == (0, "")


async def test_where_nobody_listens_nothing_is_alive(probed: Probe) -> None:
    address = f"127.0.0.1:{free_port()}"
    status, said = await probed(address)
    assert (status, f"{address} doesn't answer: UNAVAILABLE" in said) == (1, True)
