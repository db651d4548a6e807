"""What picows logs of the connections that it parses."""

from __future__ import annotations

import logging
from typing import Any

from evenflow.fargate_handler.runtime.metrics import Counter

_logger = logging.getLogger(__name__)

_OF_CLIENTS = "WS parser error"


class ParserLog(logging.LoggerAdapter[logging.Logger]):
    """picows' logger. What a client sends that is no frame is no error of ours, but counted.

    An adapter, since picows makes a child of a real logger for each connection, which takes half a
    kilobyte.

    Args:
        errors: counts them.
    """

    def __init__(self, errors: Counter) -> None:
        super().__init__(logging.getLogger("picows.server"))
        self._errors = errors

    def error(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log an error, unless it is a client's: that is information."""
        if not str(msg).startswith(_OF_CLIENTS):
            super().error(msg, *args, **kwargs)
            return
        self._errors.value += 1
        _logger.info("a client sent what is no frame, and is disconnected: %s", *args)
