"""A client of the other nodes: it reads their response logs over HTTP (`PeerLog`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
from pydantic import BaseModel, TypeAdapter, ValidationError

from evenflow.fargate_handler.gateway.evenflow.events_endpoint import NEXT_INDEX_HEADER
from evenflow.fargate_handler.gateway.http.answers import VIA_HEADER
from evenflow.fargate_handler.orchestrator.client_tools import call_not_open
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.fargate_handler.token_sources.stream_decoders import SseDecoder
from evenflow.stream_core.auth.session_token import OF_NODE, SessionTokens, for_peers
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Conflict
from evenflow.stream_core.http.routes import HEALTH, METRICS, OPERATOR
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.evenflow.http_bodies import Health
from evenflow.stream_core.protocols.evenflow.messages import (
    PresenceNotice,
    ResponseCompleted,
    ResponseFailed,
    ResponseQueued,
)
from evenflow.stream_core.protocols.evenflow.peer_log import (
    PeerConnectionLost,
    PeerEvent,
    PeerResponse,
    PeerUnreachable,
)
from evenflow.stream_core.protocols.operator.bodies import (
    AUDIENCE,
    NodeAnswer,
    OperatorAnswer,
    OperatorQuestion,
)

_EVENT: TypeAdapter[PeerEvent] = TypeAdapter(PeerEvent)
# Measured with a late event loop and a thousand handshakes at once.
_CONNECT_SECONDS = 2.0
_ANSWER_SECONDS = 2.0
_TOKEN_SECONDS = 60
_BROKEN = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError)
_OPERATOR = Channel("evenflow", "operator", "operator")
_ALL_ADDRESSES = ("0.0.0.0", "::", "")  # noqa: S104 - they name no address


class _CancelAnswer(BaseModel):
    status: ResponseState


class Peers:
    """The response logs of other nodes, over the endpoints of clients.

    Args:
        silence_seconds: the longest pause between two bytes of an owner that is believed alive.
        wall_time: seconds since the epoch.
    """

    def __init__(
        self, tokens: SessionTokens, silence_seconds: float, wall_time: Callable[[], float]
    ) -> None:
        self._tokens = tokens
        self._wall_time = wall_time
        self._silence = silence_seconds
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            connector=aiohttp.TCPConnector(limit=0),
        )

    async def events(
        self, response: PeerResponse, after: int
    ) -> AsyncGenerator[list[PeerEvent], None]:
        query = {"after": str(after), "epoch": str(response.epoch), "joined": "0"}
        if response.reader_at is not None:
            query["task"] = response.reader_at
        async with self._reading(response, "/events", query) as answer:
            if answer.status != 200 or answer.headers.get(VIA_HEADER) != "owner":
                raise PeerUnreachable(
                    f"the owner answered {answer.status}, or is no longer the owner"
                )
            next_index = int(answer.headers[NEXT_INDEX_HEADER])
            decoder = SseDecoder()
            waiting: list[PeerEvent] = []
            last_index = after
            if next_index == after + 1:
                yield []
            async for data in answer.content.iter_any():
                for each in decoder.feed(data):
                    waiting.append(_EVENT.validate_json(each))
                    last_index = _last_index(waiting[-1], last_index)
                # The entries that existed at the beginning are one list.
                if waiting and last_index + 1 >= next_index:
                    yield waiting
                    waiting = []
        raise PeerUnreachable("the owner ended the stream before the response")

    async def presence(
        self, response: PeerResponse, *, of_all: bool
    ) -> AsyncGenerator[PresenceNotice, None]:
        query = {"readers": "all" if of_all else "here"}
        async with self._reading(response, "/presence", query) as answer:
            if answer.status != 200:
                raise PeerUnreachable(f"the node answered {answer.status}")
            decoder = SseDecoder()
            async for data in answer.content.iter_any():
                for each in decoder.feed(data):
                    yield PresenceNotice.model_validate_json(each)
        raise PeerUnreachable("the node tells no more who reads the response")

    async def cancel(self, response: PeerResponse) -> ResponseState:
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS, sock_connect=_CONNECT_SECONDS)
        async with (
            self._reached(),
            self._http.post(
                self._url(response, "/cancel"), headers=self._headers(response), timeout=timeout
            ) as answer,
        ):
            if answer.status != 200:
                raise PeerUnreachable(f"the owner answered {answer.status}")
            return _CancelAnswer.model_validate_json(await answer.read()).status

    async def take_result(self, response: PeerResponse, call_id: str, text: str) -> None:
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS, sock_connect=_CONNECT_SECONDS)
        async with (
            self._reached(),
            self._http.post(
                self._url(response, "/tool-results"),
                headers=self._headers(response),
                json={"call_id": call_id, "text": text},
                timeout=timeout,
            ) as answer,
        ):
            if answer.status == Conflict.status:
                raise call_not_open(call_id)
            if answer.status != 200:
                raise PeerUnreachable(f"the owner answered {answer.status}")

    async def ask(self, address: str, question: OperatorQuestion) -> NodeAnswer:
        """Ask the node at an address what an operator wants to know of it.

        Raises:
            PeerUnreachable: it doesn't answer.
        """
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS, sock_connect=_CONNECT_SECONDS)
        token = operator_token(self._tokens, self._wall_time())
        async with (
            self._reached(),
            self._http.post(
                f"{address}{OPERATOR.path}",
                headers={"Authorization": f"Bearer {token}"},
                data=question.model_dump_json(),
                timeout=timeout,
            ) as answer,
        ):
            if answer.status != 200:
                raise PeerUnreachable(f"the node answered {answer.status}")
            return OperatorAnswer.model_validate_json(await answer.read()).nodes[0]

    async def holds_lease(self, address: str) -> bool:
        """Whether the node at an address says that its lease is in force."""
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        try:
            async with (
                self._reached(),
                self._http.get(f"{address}{HEALTH.path}", timeout=timeout) as answer,
            ):
                return Health.model_validate_json(await answer.read()).lease_in_force
        except PeerUnreachable:
            return False

    async def metrics_page(self, address: str) -> bytes:
        """The metrics of the process at an address, in Prometheus' text format.

        Raises:
            PeerUnreachable: it doesn't answer.
        """
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        async with (
            self._reached(),
            self._http.get(f"{address}{METRICS.path}", timeout=timeout) as answer,
        ):
            return await answer.read()

    async def close(self) -> None:
        """Close the connections to other nodes."""
        await self._http.close()

    @asynccontextmanager
    async def _reading(
        self, response: PeerResponse, call: str, query: dict[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Read a stream that only nodes may read."""
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=self._silence
        )
        headers = self._headers(response, for_peers(response.response_id))
        url = self._url(response, call)
        async with (
            self._reached(),
            self._http.get(url, params=query, headers=headers, timeout=timeout) as answer,
        ):
            yield answer

    @asynccontextmanager
    async def _reached(self) -> AsyncIterator[None]:
        try:
            yield
        except (aiohttp.ClientError, OSError, ValidationError) as error:
            # A timeout is an OSError, too. A slow node is not gone.
            broken = isinstance(error, _BROKEN) and not isinstance(error, TimeoutError)
            raise (PeerConnectionLost if broken else PeerUnreachable)(
                f"the owner can't be reached ({type(error).__name__})"
            ) from error

    def _url(self, response: PeerResponse, call: str) -> str:
        return f"{response.address.rstrip('/')}/chat/message/{response.response_id}{call}"

    def _headers(self, response: PeerResponse, only_for: str | None = None) -> dict[str, str]:
        token, _ = self._tokens.issue(
            response.channel,
            self._wall_time(),
            _TOKEN_SECONDS,
            only_for=only_for,
            key=OF_NODE,
        )
        return {"Authorization": f"Bearer {token}"}


def operator_token(tokens: SessionTokens, now: float) -> str:
    """A token for `POST /operator`, valid for a minute.

    Args:
        now: seconds since the epoch.
    """
    token, _ = tokens.issue(_OPERATOR, now, _TOKEN_SECONDS, only_for=AUDIENCE)
    return token


def _last_index(event: PeerEvent, last_index: int) -> int:
    """The index of the last entry that was received, with this event.

    Args:
        last_index: that before this event.
    """
    if isinstance(event, ResponseQueued):
        return last_index
    if isinstance(event, ResponseCompleted | ResponseFailed):
        return event.last_index
    return event.index


def own_address(settings: HandlerSettings, of_task: str | None) -> str | None:
    """Where other nodes reach this one. None if that is not known.

    Args:
        of_task: the address in ECS's metadata.
    """
    if settings.peer_url is not None:
        return str(settings.peer_url).rstrip("/")
    if of_task is not None:
        return of_task
    if settings.http_host in _ALL_ADDRESSES:
        return None
    host = f"[{settings.http_host}]" if ":" in settings.http_host else settings.http_host
    return f"http://{host}:{settings.http_port}"
