"""The port of the dead letters: messages that no task could answer, put aside for a person to look at."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

_logger = logging.getLogger(__name__)


class DeadLettersUnavailable(Exception):
    """The letter may not have been put aside. Sending it again does no harm."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Which message it is. Its text stays where it was, in the ledger.

    Args:
        response_id: the response that ended in an error.
        channel: `tenant:agent:session`.
        attempts: how many tasks have tried.
        reason: why there is no further attempt, for people.
        at: seconds since the epoch.
    """

    response_id: str
    channel: str
    message_id: str
    attempts: int
    reason: str
    at: float


class DeadLetters(Protocol):
    """Where they go."""

    async def send(self, letter: DeadLetter) -> None:
        """Put a letter aside. It may arrive more than once.

        Raises:
            DeadLettersUnavailable: see there.
        """


class LoggedDeadLetters:
    """`DeadLetters` where there is no queue for them: the log has them."""

    async def send(self, letter: DeadLetter) -> None:
        """Log it."""
        _logger.error("dead letter: %s", letter)
