"""What requests of a megabyte take of a handler's memory, in both stores of one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import OpenSession, ServeProcess, http, opened, serve, serve_process
from tests.integration.openai.conftest import At, at
from tests.integration.openai.test_memory_of_requests import (
    PROMPT_BYTES,
    answer_prompts,
    values,
    what_they_hold_is_bounded,
)

__all__ = ["at", "http", "opened", "serve", "serve_process"]  # fixtures

pytestmark = pytest.mark.parametrize("store", ["memory", "sqlite"])

_REQUESTS = 40
_BOUND = 64_000_000
_VALUES = values(333_333)


async def test_prompts_are_not_kept(
    at: At, opened: OpenSession, serve_process: ServeProcess, tmp_path: Path, store: str
) -> None:
    server = serve_process(
        store=store,
        store_path=tmp_path / "evenflow.db",
        history_bytes=2 * PROMPT_BYTES,
        messages_per_second=1_000,
    )
    completions = at(server, (await opened(server)).token)
    # Warm is a process when what waits for the garbage collector is as much as it gets.
    await answer_prompts(completions, _REQUESTS, "warm")
    before = server.resident_bytes
    await answer_prompts(completions, _REQUESTS, "kept")
    grown = server.resident_bytes - before
    assert grown < _REQUESTS * PROMPT_BYTES / 2, grown


@pytest.mark.parametrize("parameters", [{}, _VALUES], ids=["text", "values"])
async def test_what_they_hold_is_bounded(
    at: At, serve_process: ServeProcess, tmp_path: Path, parameters: dict[str, Any], store: str
) -> None:
    path = tmp_path / "evenflow.db"
    server = serve_process(
        store=store, store_path=path, requests_held_bytes=_BOUND, grace_seconds=60
    )
    await what_they_hold_is_bounded(server, _BOUND, parameters, at)
