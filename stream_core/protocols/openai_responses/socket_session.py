"""The protocol of one WebSocket of OpenAI's Responses API: requests in, events out."""

from __future__ import annotations

from evenflow.stream_core.base.errors import InvalidRequest, Overloaded
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.protocols.evenflow.connection_states import (
    ConnectionEvent,
    Output,
    Received,
)
from evenflow.stream_core.protocols.evenflow.frame_intake import RejectedMessage
from evenflow.stream_core.protocols.evenflow.socket_session import CredentialCheck, SocketSession
from evenflow.stream_core.protocols.openai_responses.encoder import JsonLines, error_event

CREATE = "response.create"
"""The type of every message."""


class ResponsesSession(SocketSession):
    """The protocol state of one connection. A message is as large as a request's body may be."""

    __slots__ = ()

    def __init__(self, limits: Limits, now: float, check: CredentialCheck) -> None:
        super().__init__(limits, limits.request_bytes, now, check)

    def drain(self) -> list[Output]:
        """The node is draining: reject new messages."""
        self._fire(ConnectionEvent.DRAIN)
        return []

    def _receive_message(self, data: bytes, now: float) -> list[Output]:
        if (too_fast := self._intake.too_fast(now)) is not None:
            return self.reject(RejectedMessage(too_fast, CREATE), now)
        if (lapsed := self._lapsed(now)) is not None:
            return self._reject_lapsed(RejectedMessage(lapsed, CREATE, is_violation=False), now)
        if not self._fire(ConnectionEvent.MESSAGE):
            draining = Overloaded(
                "this node is leaving; nothing was generated, send it on a new connection",
                code="draining",
                retry_after_ms=1000,
            )
            return self.reject(RejectedMessage(draining, CREATE, is_violation=False), now)
        if not data.lstrip().startswith(b"{"):  # the rest is parsed later
            error = InvalidRequest(
                "a message must be a JSON object; nothing was generated",
                code="invalid_field",
                param="type",
            )
            return self.reject(RejectedMessage(error, CREATE), now)
        return [Received(data)]

    def _encoded(self, rejected: RejectedMessage) -> bytes:
        return error_event(JsonLines(), rejected.error, 0).rstrip()
