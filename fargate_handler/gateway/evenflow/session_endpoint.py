"""`/session`: open a session, read its messages, share it, and end it."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.answers import check_room, json_answer
from evenflow.fargate_handler.gateway.http.called_url import public_urls_of
from evenflow.fargate_handler.gateway.http.request_body import read_body
from evenflow.fargate_handler.gateway.http.verified_request import (
    claims_of,
    client_of,
    host_of,
    number_of_query,
)
from evenflow.fargate_handler.orchestrator.session_messages import AnsweredMessage
from evenflow.stream_core.auth.rights import TO_READ, Right, check_right
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.errors import NotFound
from evenflow.stream_core.bounds.address_rates import AddressRates
from evenflow.stream_core.bounds.memory_bound import GENERATION_BYTES
from evenflow.stream_core.http.http_contract import NEVER_CACHED
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.protocols.evenflow.http_bodies import SessionShared
from evenflow.stream_core.protocols.evenflow.messages import SESSION_REQUEST, SHARE_REQUEST, parse
from evenflow.stream_core.protocols.evenflow.part_objects import part_object
from evenflow.stream_core.protocols.evenflow.session_init import (
    bearer,
    check_address,
    iso_time,
    open_session,
)

_MESSAGES_PER_PAGE, _MOST_MESSAGES_PER_PAGE = 20, 100


class SessionEndpoint:
    """Opens, reads, shares and ends sessions."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._opened_rates = AddressRates(context.limits.sessions_per_address_per_second)

    async def post(self, request: web.Request) -> web.Response:
        """Open a session. The answer is 201 with its token."""
        context = self._context
        # Without memory for a generation its first message would be rejected.
        context.orchestrator.memory.check(GENERATION_BYTES)
        # The caller's tenant is in the body.
        body = await read_body(request, context, context.limits.message_bytes)
        credential = bearer(request.headers.get("Authorization"))
        identities, client = context.access.identities, client_of(request, context.site)
        origin, host = request.headers.get("Origin"), host_of(request, context.site)
        if identities is not None:
            await identities.prepare(credential)
        session = open_session(
            parse(SESSION_REQUEST, body or b"{}"),
            credential,
            agents=context.agents,
            tenants=context.tenants,
            tokens=context.access.tokens,
            now=context.wall_time(),
            ttl=context.limits.session_token_ttl_seconds,
            check_without_key=lambda: check_address(
                self._opened_rates,
                client.address,
                context.monotonic(),
                is_proxy=bool(client.unnamed_proxy),
            ),
            identities=None if identities is None else identities.tokens,
            origin=None if context.site.is_own_page(origin or "", host) else origin,
        )
        ws_url, http_url = public_urls_of(request, context.site)
        return json_answer(session.to_body(ws_url=ws_url, http_url=http_url), status=201)

    async def messages(self, request: web.Request) -> web.Response:
        """The session's newest messages with their answers, or those before one of them.

        With `through` they are those of the version of the conversation that has this message.
        """
        channel = _own_session(request).channel
        limit = number_of_query(request, "limit", _MESSAGES_PER_PAGE, lowest=1)
        page = await self._context.orchestrator.messages.page(
            channel,
            request.query.get("before"),
            min(limit, _MOST_MESSAGES_PER_PAGE),
            request.query.get("through"),
        )
        check_room(self._context, sum(stored.size for stored in page.messages))
        return json_answer(
            {
                "messages": [_message(stored) for stored in page.messages],
                "next_before": page.next_before,
            }
        )

    async def share(self, request: web.Request) -> web.Response:
        """Issue a token that reads one response, or the session. The answer is 201."""
        context, claims = self._context, _own_session(request)
        check_right(Right.READ, claims.may)
        await context.orchestrator.ended_sessions.check_in_store(claims.channel)
        body = await read_body(request, context, context.limits.message_bytes)
        share = parse(SHARE_REQUEST, body or b"{}")
        if share.response_id is not None:
            await context.orchestrator.find(share.response_id, claims.channel)
        token, expires_at = context.access.tokens.issue(
            claims.channel,
            context.wall_time(),
            share.ttl_seconds,
            only_for=share.response_id,
            user=share.for_ or "",
            key=claims.key,
            may=TO_READ,
            shared=True,
            names=share.names,
        )
        ws_url, http_url = public_urls_of(request, context.site)
        shared = SessionShared(
            token=token, expires_at=iso_time(expires_at), ws_url=ws_url, http_url=http_url
        )
        return json_answer(shared.model_dump(), status=201)

    async def end(self, request: web.Request) -> web.Response:
        """End the session. The answer is 204, also if it was ended before."""
        context, channel = self._context, _own_session(request).channel
        # The end is completed, even if the client disconnects.
        await asyncio.shield(context.background.run(context.orchestrator.end_session(channel)))
        # Sockets with a ticket are not registered under their session.
        for connection in (*context.registry.of(channel), *context.registry.of(None)):
            if connection.grant.session == channel:
                connection.close(CloseCode.DONE, "the session was ended")
        return web.Response(status=204, headers=NEVER_CACHED)


def _own_session(request: web.Request) -> SessionClaims:
    """The claims of the token, if it is of the session in the path.

    Raises:
        NotFound: it is another session's.
    """
    claims = claims_of(request)
    if claims.channel.session != request.match_info["session_id"]:
        raise NotFound(
            "the token is another session's; nothing was changed", code="session_not_found"
        )
    return claims


def _message(stored: AnsweredMessage) -> dict[str, Any]:
    """A `ConversationMessage`."""
    entry, outcome = stored.entry, stored.outcome
    message: dict[str, Any] = {
        "message_id": entry.message_id,
        "previous_message_id": entry.previous_message_id,
        "response_id": entry.response_id,
        "text": stored.text,
        "status": outcome.state,
        "answer": _answer(stored),
    }
    more = (
        ("finish_reason", outcome.finish_reason),
        ("error", outcome.error),
        ("replaces", entry.replaces),
        ("versions", stored.versions or None),
    )
    return message | {name: value for name, value in more if value is not None}


def _answer(stored: AnsweredMessage) -> dict[str, Any]:
    """A `MessageAnswer`."""
    text, parts = "", list[dict[str, Any]]()
    for content in stored.outcome.contents:
        if isinstance(content, str):
            text += content
        else:
            parts.append({"at": len(text), **part_object(content)})
    answer: dict[str, Any] = {"text": text, "parts": parts}
    if stored.last_index is not None:
        answer |= {"last_index": stored.last_index, "epoch": stored.epoch}
    return answer
