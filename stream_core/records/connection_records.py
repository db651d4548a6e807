"""Lines of connections: rejections, closes, and readers that lag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.protocols.evenflow.close_codes import code_label
from evenflow.stream_core.records.event_record import EventRecord

BY_CLIENT, BY_SERVER = "client", "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectionRecord(EventRecord):
    """A request, a handshake or a frame was answered with an error. Of each code one a second is
    logged.
    """

    EVENT: ClassVar[str] = "refusal"

    code: Annotated[str, "the error's code, as sent to the client"]
    status: Annotated[int | None, "its HTTP status"] = None
    transport: Annotated[str, "websocket or http; none: the client had left"]
    what: Annotated[
        str,
        "the method and the route, `handshake`, `head` of a request that can't be read, or the "
        "frame's type; `frame` where it is unknown",
    ]
    tenant: Annotated[str | None, "the tenant, where a key or a token names it"] = None
    retry_after_ms: Annotated[int | None, "when it may come again"] = None
    unnamed_proxy: Annotated[
        str | None,
        "the proxy that passed it on, where EVENFLOW_TRUSTED_PROXIES does not name it",
    ] = None

    @classmethod
    def of(
        cls, error: EvenflowError, transport: str, what: str, tenant: str | None = None
    ) -> RejectionRecord:
        """The line of an error."""
        return cls(
            code=error.code,
            status=error.status,
            transport=transport,
            what=what,
            tenant=tenant,
            retry_after_ms=error.retry_after_ms,
        )

    @property
    def kind(self) -> str:
        return f"{self.EVENT} {self.code}"

    def __str__(self) -> str:
        proxy = self.unnamed_proxy
        through = f"; EVENFLOW_TRUSTED_PROXIES does not name the proxy {proxy}" if proxy else ""
        return f"refused {self.what} over {self.transport}: {self.code}{through}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowRecord(EventRecord):
    """A message or a connection of a tenant in shadow was accepted though a bound rejects it. One a
    second is logged of each bound.
    """

    EVENT: ClassVar[str] = "shadow_refusal"

    tenant: Annotated[str, "the tenant"]
    code: Annotated[str, "the error's code, as its sender would have received it"]
    limit: Annotated[str, "the bound and its owner, such as `tenant.tokens_per_minute`"]
    retry_after_ms: Annotated[int | None, "when it might have come again"] = None

    @property
    def kind(self) -> str:
        return f"{self.EVENT} {self.limit}"

    def __str__(self) -> str:
        return f"{self.tenant} is in shadow: without that, {self.limit} would have refused it"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRecord(EventRecord):
    """A WebSocket was closed. Of each code one a second is logged."""

    EVENT: ClassVar[str] = "close"

    code: Annotated[
        int,
        "the close code, 4010: no pong in time, 4008: too slow; 1005: the client's close frame had "
        "none, 1006: there was no close frame, the connection broke",
    ]
    by: Annotated[str, "`server` or `client`"]
    protocol: Annotated[str, "its subprotocol, or the name of an API"]
    tenant: Annotated[str, "the tenant"]
    agent: Annotated[str | None, "the agent"] = None
    session: Annotated[str | None, "16 digits of the SHA-256 of the session's id"] = None
    reading: Annotated[int, "how many answers were being delivered to it"]
    duration_ms: Annotated[float, "for how long it was open"]

    @property
    def kind(self) -> str:
        # As a label: a client could make up thousands of codes, and so of kinds.
        return f"{self.EVENT} {code_label(self.code)} {self.by}"

    def __str__(self) -> str:
        lasted = f"after {self.duration_ms / 1000:.1f} s"
        return f"closed by the {self.by} with {self.code} {lasted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowReaderRecord(EventRecord):
    """A reader lags too far. One a second is logged, and one of the disconnected ones."""

    EVENT: ClassVar[str] = "slow_reader"

    tenant: Annotated[str, "the tenant"]
    session: Annotated[str, "16 digits of the SHA-256 of the session's id"]
    response_id: Annotated[str, "the answer"]
    transport: Annotated[str, "websocket or sse"]
    let_go: Annotated[bool, "whether it is disconnected; otherwise it is notified of its lag"]
    behind_entries: Annotated[int, "entries that it has not been given"]
    behind_ms: Annotated[float, "for how long it has lagged"]

    @property
    def kind(self) -> str:
        return f"{self.EVENT} {self.let_go}"

    def __str__(self) -> str:
        done = "is let go" if self.let_go else "lags"
        return (
            f"a reader of {self.response_id} over {self.transport} {done}: {self.behind_entries} "
            f"deltas and {self.behind_ms / 1000:.1f} s behind"
        )
