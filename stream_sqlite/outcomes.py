"""Sets the results of calls on the futures of their callers."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from evenflow.stream_core.stores.response_store import StoreUnavailable

_logger = logging.getLogger(__name__)


class Outcomes:
    """Hands outcomes out, in the event loop. Logs once that the file can't be used, until it can.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failing = False

    def hand_out(self, answer: asyncio.Future[Any], outcome: object) -> None:
        """Set a call's result or exception, unless the caller has given up."""
        self._note(outcome)
        if answer.done():
            return
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)

    def _note(self, outcome: object) -> None:
        # Subclasses have other causes than the file.
        failing = type(outcome) is StoreUnavailable
        if failing and not self._failing:
            _logger.error(
                "%s can't be used: %s; every call tries it again", self._path, str(outcome)
            )
        self._failing = failing
