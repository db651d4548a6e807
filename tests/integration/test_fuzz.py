"""Random bytes for ten seconds. `make soak` sends them for ten minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.__main__ import fuzzing
from tests.fuzz.campaign import Found
from tests.fuzz.inputs import KINDS, input_of
from tests.fuzz.open_session import OpenSession

_SEED = 1
_SECONDS = 10.0


async def test_random_bytes_harm_nobody(tmp_path: Path) -> None:
    async with fuzzing(tmp_path / "server.log", _SEED) as running:
        await running.run(_SECONDS)
    # On a busy machine these are few.
    assert all(running.sent[kind] for kind in KINDS), running.sent


async def test_a_server_that_ends_is_found_and_the_inputs_are_told(tmp_path: Path) -> None:
    async with fuzzing(tmp_path / "server.log", _SEED) as running:
        running.server.kill()
        with pytest.raises(Found, match=f"--seed {_SEED} --first 0"):
            await running.run(_SECONDS)


def test_an_input_can_be_made_again() -> None:
    session = OpenSession(b"token", b"rsp_1")
    inputs = [input_of(_SEED, number, session) for number in range(200)]
    assert inputs == [input_of(_SEED, number, session) for number in range(200)]
    assert inputs != [input_of(_SEED + 1, number, session) for number in range(200)]
    assert {given.kind for given in inputs} == set(KINDS)
