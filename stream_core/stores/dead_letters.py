"""The port of the dead letters: messages whose owners were all lost, kept for an operator."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from evenflow.stream_core.bounds.log_rate import EACH

_logger = logging.getLogger(__name__)


class DeadLettersUnavailable(Exception):
    """The letter may not have been put aside. It can safely be sent again."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that was put aside. Its text stays in the ledger.

    Args:
        response_id: the response, which ended in an error.
        channel: `tenant:agent:session`.
        attempts: the number of nodes that have tried.
        reason: why there is no further attempt, for the operator.
        at: seconds since the epoch.
    """

    response_id: str
    channel: str
    message_id: str
    attempts: int
    reason: str
    at: float


class DeadLetters(Protocol):
    """Keeps dead letters."""

    async def send(self, letter: DeadLetter) -> None:
        """Put a letter aside. It may arrive more than once.

        Raises:
            DeadLettersUnavailable: the letter may not have been put aside.
        """


class LoggedDeadLetters:
    """`DeadLetters` for a node without a queue for them: they go to the operator's log."""

    async def send(self, letter: DeadLetter) -> None:
        """Log it."""
        _logger.error("dead letter: %s", letter, extra=EACH)
