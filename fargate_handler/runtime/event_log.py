"""Logs event records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenflow.stream_core.records.event_record import EventRecord

_logger = logging.getLogger(__name__)


def log_event(event: EventRecord) -> None:
    """Log a record, at level info. The formatter writes its fields."""
    if _logger.isEnabledFor(logging.INFO):
        # Not `info`, which first looks up its caller.
        line = _logger.makeRecord(_logger.name, logging.INFO, __file__, 0, event, (), None)
        _logger.handle(line)
