"""The port to a response's log at the task that owns it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from stream_core.log.response_log import ResponseState
from stream_core.policy.channel import Channel
from stream_core.protocol.messages import ResponseCompleted, ResponseDelta, ResponseFailed, ResponseRestarted

PeerEvent = ResponseDelta | ResponseRestarted | ResponseCompleted | ResponseFailed


class PeerUnreachable(Exception):
    """The other task doesn't answer, not in this way, or no longer. Nothing is known of the response: ask the store."""


@dataclass(frozen=True, slots=True)
class PeerResponse:
    """A response at another task. `epoch`: the newest owner that the reader knows."""

    address: str
    channel: Channel
    response_id: str
    epoch: int = 1


class PeerLog(Protocol):
    """Other tasks, by the address that their lease tells."""

    def events(self, response: PeerResponse, after: int) -> AsyncGenerator[list[PeerEvent], None]:
        """The entries behind index `after`, each on its own, as they come, until the response's end.

        The first list has what was there when it was asked, and may be empty.

        Raises:
            PeerUnreachable: see there.
        """

    async def cancel(self, response: PeerResponse) -> ResponseState:
        """Stop the model and end the response; its state then.

        Raises:
            PeerUnreachable: see there.
        """
