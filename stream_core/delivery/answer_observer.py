"""The port through which somebody follows what happens to an answer, for example as a trace."""

from __future__ import annotations

from typing import Protocol

from evenflow.stream_core.delivery.paced_cursor import Reader


class AnswerObserver(Protocol):
    """Follows one response at the task that owns it. Nothing is called for a token.

    What has a time in the response is read there. No method may wait or raise.
    """

    @property
    def traceparent(self) -> str:
        """The trace that the model is told, as W3C Trace Context has it."""

    def started(self) -> None:
        """The response has left the queue: the model is asked."""

    def first_token(self) -> None:
        """The model of this task has given its first token."""

    def generated(self) -> None:
        """The response has ended or is another task's now, and the model is closed."""

    def attached(self, reader: Reader) -> None:
        """A reader has come."""

    def detached(self, reader: Reader) -> None:
        """A reader has left."""

    def recorded(self, since: float) -> None:
        """Nothing more of it is written to the store.

        Args:
            since: when the first write was due, in seconds on the monotonic clock.
        """
