"""The port of readers: what a response delivers to."""

from __future__ import annotations

from typing import Protocol

from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.queue_place import QueuePlace


class Reader(Protocol):
    """A cursor with a transport behind it."""

    @property
    def transport(self) -> Transport:
        """The transport that brings entries to the client."""

    @property
    def user(self) -> str | None:
        """The user of the reader's token, empty if unknown.

        None: no client's reader, but a replica's on another node, or one by which this node waits.
        """

    @property
    def next_index(self) -> int:
        """The next index to deliver. 0 for a reader that is only notified of news."""

    @property
    def pauses_model(self) -> bool:
        """Whether it pauses, and the log is the pause window ahead of it."""

    def deliver(self, now: float, jitter: float | None) -> None:
        """Give the reader what is new: the log has grown, or ended. Must not wait or raise.

        `jitter` is the difference in seconds between this delivery and its due time. None for the
        first delivery, and for a call that no due time belongs to.
        """

    def on_queued(self, place: QueuePlace) -> None:
        """The response waits for the model at this place. Must not wait or raise."""

    def announce_start(self) -> None:
        """Announce the changed beginning of the answer, before its text. Must not wait or raise."""

    def on_lost(self) -> None:
        """This copy is lost: find the response again and resume. Must not wait or raise."""
