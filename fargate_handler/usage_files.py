"""The file of each day's usage records, beside the store's file."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.protocols.evenflow.usage_report import day_records
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.budget import day_of
from evenflow.stream_core.tenants.usage import LATE_SECONDS, file_of
from evenflow.stream_core.tenants.usage_store import UsageStore

_logger = logging.getLogger(__name__)

_LOOK_SECONDS = 30.0
_DAY_SECONDS = 86_400.0


class UsageFiles:
    """Writes the file of the day before, a quarter of an hour after its end, and at the start.

    A file is made of the records in the store, and takes its name when it is whole. So several
    processes may write it, and again: it has the same bytes, with each record once.

    Args:
        folder: of the files. It is made with the first one.
    """

    def __init__(self, context: NodeContext, store: UsageStore, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._tenants = context.tenants
        self._clock = context.clock
        self._wall_time: Callable[[], float] = context.wall_time
        self._written = ""
        self._background = Background()

    def start(self) -> None:
        """Write the first file, and go on by the clock."""
        self.on_due(0)

    async def aclose(self) -> None:
        """Write nothing more."""
        await self._background.aclose()

    def on_due(self, _slot: int) -> None:
        """Write the file of the day before, if it is time."""
        self._clock.put_after(self, _LOOK_SECONDS)
        day = day_of(self._wall_time() - LATE_SECONDS - _DAY_SECONDS)
        if day != self._written and self._tenants.known_ids:
            self._background.run(self._write(day))

    async def _write(self, day: str) -> None:
        try:
            records = await day_records(self._store, sorted(self._tenants.known_ids), day)
            # It takes seconds if there were many answers.
            lines = await asyncio.to_thread(file_of, records)
            if lines:
                await asyncio.to_thread(_replace, self._folder / f"{day}.jsonl", lines)
            self._written = day
        except (OSError, StoreUnavailable) as error:
            _logger.error(
                "the usage of %s could not be written, and is tried again: %s", day, error
            )


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically. At no time can other users read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    partial.replace(path)
