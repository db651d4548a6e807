"""The port through which a node reads a response's log at the node that owns it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.evenflow.messages import (
    PresenceNotice,
    ResponseCompleted,
    ResponseDelta,
    ResponseFailed,
    ResponsePart,
    ResponseQueued,
    ResponseRestarted,
)

PeerEvent = (
    ResponseDelta
    | ResponsePart
    | ResponseRestarted
    | ResponseCompleted
    | ResponseFailed
    | ResponseQueued
)


class PeerUnreachable(Exception):
    """The other node does not answer, or no longer. Only the store knows the response's state."""


class PeerConnectionLost(PeerUnreachable):
    """The other node can't be connected to, or the connection broke. Perhaps it is lost."""


@dataclass(frozen=True, slots=True)
class PeerResponse:
    """A response at another node. `epoch` is the newest one that the reader received.

    `reader_at` is the address of the node that copies it. None if other nodes can't reach that one.
    """

    address: str
    channel: Channel
    response_id: str
    epoch: int = 1
    reader_at: str | None = None


class PeerLog(Protocol):
    """The logs of other nodes. Each has the address that is in its lease."""

    def events(self, response: PeerResponse, after: int) -> AsyncGenerator[list[PeerEvent], None]:
        """The entries after index `after` as they come, until the response's end.

        The first list has the entries that existed at the time of the call. It may be empty. While
        the response waits for its model, its place comes too: 0 once it waits no more. An older
        owner doesn't say it.

        Raises:
            PeerUnreachable: the node does not answer, or no longer.
            PeerConnectionLost: it can't be connected to, or the connection broke.
        """

    def presence(
        self, response: PeerResponse, *, of_all: bool
    ) -> AsyncGenerator[PresenceNotice, None]:
        """The readers of the response there, now and on each change, until the response's end.

        Args:
            of_all: the readers at all nodes, as its owner knows them. Otherwise of that one.

        Raises:
            PeerUnreachable: the node does not answer, or no longer, or has no such response.
        """

    async def cancel(self, response: PeerResponse) -> ResponseState:
        """Stop the model and end the response.

        Returns:
            The state of the response afterwards.

        Raises:
            PeerUnreachable: the node does not answer.
        """

    async def take_result(self, response: PeerResponse, call_id: str, text: str) -> None:
        """Send the owner the result of a call that the client has run.

        Raises:
            Conflict: the call is not open.
            PeerUnreachable: the node does not answer.
        """
