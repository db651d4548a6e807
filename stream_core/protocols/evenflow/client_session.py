"""The protocol of one client of a session: the messages that it may send, and their errors."""

from __future__ import annotations

import orjson

from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.errors import (
    AuthenticationFailed,
    EvenflowError,
    InvalidRequest,
    Overloaded,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.protocols.evenflow.connection_states import (
    Command,
    ConnectionEvent,
    Output,
)
from evenflow.stream_core.protocols.evenflow.dialect import Dialect
from evenflow.stream_core.protocols.evenflow.frame_intake import RejectedMessage
from evenflow.stream_core.protocols.evenflow.messages import (
    CLIENT_TYPES,
    LONGEST_IDENTIFIER,
    ChatMessageFrame,
    ClientMessage,
    Ping,
    Pong,
    Reconnect,
    ResponseAck,
    ResponseCredit,
    ResponseResume,
    ServerMessage,
)
from evenflow.stream_core.protocols.evenflow.response_frames import ids_of, rejection_frame
from evenflow.stream_core.protocols.evenflow.socket_session import (
    CredentialCheck,
    SocketSession,
    always_valid,
)

_EVENFLOW = Dialect()


class ClientSession(SocketSession):
    """The protocol state of one client's connection to its session.

    Args:
        claims: the content of the client's token.
        dialect: how its frames are written.
        expires_in: seconds from `now` until the token expires.
        now, check: as for `SocketSession`.
    """

    __slots__ = ("_expires_at", "claims", "dialect")

    def __init__(
        self,
        claims: SessionClaims,
        limits: Limits,
        *,
        expires_in: float,
        now: float,
        dialect: Dialect = _EVENFLOW,
        check: CredentialCheck = always_valid,
    ) -> None:
        super().__init__(limits, limits.message_bytes, now, check)
        self.claims = claims
        self.dialect = dialect
        self._expires_at = now + expires_in

    def connected(self, ready: ServerMessage, share: float, now: float) -> list[Output]:
        """The transport is ready: send `ready`, and begin the heartbeat as `begin` does."""
        begun = self.begin(share, now)
        return [*self.tell(ready), *begun] if begun else []

    def tell(self, message: ServerMessage) -> list[Output]:
        """Send any frame but a delta."""
        return self.send(self.dialect.write(message))

    def notify(self, message: ServerMessage, now: float) -> list[Output]:
        """Send what happens in the session, or close where the credential no longer opens it."""
        return self._close_lapsed(now) or self.tell(message)

    def drain(self, reason: str, after_ms: int) -> list[Output]:
        """The node is leaving: reject new messages, and send the client the time to reconnect."""
        self._fire(ConnectionEvent.DRAIN)
        return self.tell(Reconnect(type="reconnect", reason=reason, after_ms=after_ms))

    # -- messages ----------------------------------------------------------------------------------

    def _receive_message(self, data: bytes, now: float) -> list[Output]:
        read = self._read(data)
        if isinstance(read, RejectedMessage):
            return self.reject(read, now)
        # An ack requests nothing, and a slow line delivers the acks of many seconds at once. It
        # counts as a frame.
        is_ack = isinstance(read, ResponseAck)
        if not is_ack and (error := self._intake.too_fast(now)) is not None:
            return self.reject(RejectedMessage(error, read.type, *ids_of(read)), now)
        if (lapsed := self._lapsed(now)) is not None:
            rejected = RejectedMessage(lapsed, read.type, *ids_of(read), is_violation=False)
            return self._reject_lapsed(rejected, now)
        if isinstance(read, Ping):
            return self.tell(Pong(type="pong"))
        if isinstance(read, ChatMessageFrame) and not self._fire(ConnectionEvent.MESSAGE):
            draining = Overloaded(
                "this node is leaving; the message was not accepted, send it on a new connection",
                code="draining",
                retry_after_ms=1000,
            )
            return self.reject(
                RejectedMessage(draining, read.type, read.message_id, is_violation=False), now
            )
        return [Command(read)]

    def _encoded(self, rejected: RejectedMessage) -> bytes:
        frame = rejection_frame(rejected.error, rejected.message_id, rejected.response_id)
        return self.dialect.write(frame)

    def _lapsed(self, now: float) -> EvenflowError | None:
        if now < self._expires_at:
            return super()._lapsed(now)
        return AuthenticationFailed(
            "the session token has expired; running answers go on, but nothing was accepted: POST "
            "/session with the same session_id, connect again and send it there",
            code="token_expired",
        )

    def _read(self, data: bytes) -> ClientMessage | RejectedMessage:
        try:
            message = self.dialect.read(data)
            self._check_credit(message)
        except InvalidRequest as error:
            return self._not_understood(data, error)
        return message

    def _check_credit(self, message: ClientMessage) -> None:
        """Check credit before a message is accepted or a response is looked for."""
        if isinstance(message, ResponseCredit):
            credit, param = message.n, "n"
        elif isinstance(message, ChatMessageFrame | ResponseResume) and message.credit is not None:
            credit, param = message.credit, "credit"
        else:
            return
        most = self._limits.credit_window
        if credit > most:
            raise InvalidRequest(
                f"{param}: at most {most} entries may be granted ahead; nothing was changed",
                code="invalid_field",
                param=param,
            )

    def _not_understood(self, data: bytes, error: InvalidRequest) -> RejectedMessage:
        """The rejected message, with the ids that the frame names, so that its sender finds it."""
        try:
            frame = orjson.loads(data)
        except orjson.JSONDecodeError:
            frame = None
        if not isinstance(frame, dict):
            return RejectedMessage(error)
        return RejectedMessage(
            error,
            _type(frame.get("type")),
            _id(frame.get(self.dialect.message_field)),
            _id(frame.get("response_id")),
        )


def _type(value: object) -> str:
    """The type of a frame, for the log: what is none may be a text of its user's."""
    return value if isinstance(value, str) and value in CLIENT_TYPES else "frame"


def _id(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= LONGEST_IDENTIFIER else None
