"""Verifies the sender of a request by its credential, and finds what it counts for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.access_control import AccessGrant
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.rate_keys import (
    anonymous_rate_keys,
    token_rate_keys,
)
from evenflow.fargate_handler.gateway.http.verified_request import (
    API_KEY,
    GRANT,
    PAYER,
    TENANT,
    address_of,
    host_of,
)
from evenflow.stream_core.auth.rights import ALL_RIGHTS, Right, check_right
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import AuthenticationFailed
from evenflow.stream_core.base.trace_context import TRACEPARENT, known_traceparent
from evenflow.stream_core.bounds.call_rates import RateKeys
from evenflow.stream_core.http.http_contract import whole_number
from evenflow.stream_core.protocols.evenflow.session_init import OPEN_TENANT, bearer
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.tenants.access import check_scope
from evenflow.stream_core.tenants.charges import Caller
from evenflow.stream_core.tenants.tenant import Scope

TTFT_HEADER = "x-slo-ttft-ms"
_LONGEST_WAIT_MS = 86_400_000
# Clients that retry after 408, 409, 429 and 5xx: the SDKs of OpenAI and Anthropic, Vercel's AI SDK,
# and Codex.
_RETRYING_HEADERS = ("x-stainless-lang", "x-stainless-retry-count")
_RETRYING_AGENTS = ("ai-sdk/", "codex_")


class Sender(NamedTuple):
    """The sender of a request: a tenant, and what its verified credential says of it.

    `payer` is its `Caller`: the accounts that pay, of tenant, key and user. Its `Line` is the place
    in the queue, by tenant, address and session.

    `session`: the session of its token. None: it has no session's token.
    `known`: whether it has a key or a token. Otherwise its address alone is known.
    `traceparent`: the trace of its request. Empty: none.
    `key`: the id of the tenant's key. Empty: none.
    `slo_ttft_ms`: the wanted time to the first token, in milliseconds.
    `identified`: whether an identity provider names the user. Then the names that the user chooses
    are unique to the user.
    `retries`: whether its client retries by itself after each failure.
    `expires_at`: when its token expires, in seconds since the epoch.
    `may`: the rights of the session's token. Those of a tenant's key are in its scopes.
    `claims`: what the session's token says. None: it has none.
    """

    tenant: str
    address: str
    session: Channel | None = None
    user: str = ""
    known: bool = True
    traceparent: str = ""
    key: str = ""
    slo_ttft_ms: int | None = None
    identified: bool = False
    retries: bool = False
    may: frozenset[Right] = ALL_RIGHTS
    expires_at: float = inf
    claims: SessionClaims | None = None

    @property
    def grant(self) -> AccessGrant:
        """Its verified credential."""
        return AccessGrant(self.tenant, self.key, self.session, self.expires_at)

    @property
    def payer(self) -> Caller:
        """The caller that its requests are counted for."""
        return Caller(self.tenant, self.key, self.user, address=self.address)

    def own(self, name: str) -> str:
        """A name that the client has chosen, made unique to its user if that is identified."""
        if not self.identified:
            return name
        # Two pairs never have the same text: the last line is the user, or empty.
        user = self.user if "\n" not in self.user else f"{text_digest(self.user)}\n"
        return f"{name}\n{user}"

    def own_digest(self, digest: str) -> str:
        """A digest in an id that the client has received, made unique likewise."""
        return text_digest(self.own(digest)) if self.identified else digest

    def user_or(self, named: str) -> str:
        """The user of the credential, or the one that a backend has `named`.

        A page with a session's token can't name a user: it could use up another one's limits.
        """
        return self.user or ("" if self.session else named)

    def named_in(self, terms: MessageTerms) -> MessageTerms:
        """The terms of a request with the user, the key and the wanted time to the first token."""
        user = self.user_or(terms.user)
        update = {"user": user, "key": self.key, "slo_ttft_ms": self.slo_ttft_ms}
        return terms.model_copy(update=update)


SENDER = web.RequestKey("sender", Sender)
"""The sender of a request, once the intake has verified it."""


def sender_of(request: web.Request) -> Sender:
    """The sender of a request, which the intake has verified."""
    sender: Sender = request[SENDER]
    return sender


async def verified_sender(request: web.Request, context: GatewayContext, right: Right) -> Sender:
    """Verify the sender of a request by its `Authorization` header, or `x-api-key` in its place.

    Raises:
        InvalidRequest: a header is wrong.
        NotPermitted: the session's token lacks the right, or the key the scope.
        Gone: the session was ended.
        OriginNotAllowed: the tenant does not allow the page that calls.
        EvenflowError: as for `sender_with`.
    """
    credential = bearer(request.headers.get("Authorization")) or request.headers.get(API_KEY)
    if context.access.identities is not None:
        await context.access.identities.prepare(credential)
    needed = Scope.READ if right is Right.READ else Scope.API
    sender = sender_with(credential, address_of(request, context.site), context, needed)
    request[TENANT] = sender.tenant
    request[PAYER] = sender.payer
    # An answer that was requested before the expiry is delivered to its end.
    expires_at = sender.expires_at if right is Right.READ else inf
    request[GRANT] = sender.grant._replace(expires_at=expires_at)
    if sender.session is not None:
        await context.orchestrator.ended_sessions.check_in_store(sender.session)
    check_right(right, sender.may)
    host = host_of(request, context.site)
    context.access.check_origin(sender.tenant, request.headers.get("Origin"), host)
    return sender._replace(
        traceparent=known_traceparent(request.headers.get(TRACEPARENT)),
        slo_ttft_ms=first_token_ms(request),
        retries=_retries(request.headers),
    )


def rate_keys_of(sender: Sender, context: GatewayContext) -> RateKeys:
    """The rate keys to which a sender's calls are charged."""
    if sender.claims is not None:
        return token_rate_keys(sender.claims, sender.address, context)
    if sender.key:
        return RateKeys(account=(sender.tenant, sender.key))
    if sender.identified:
        return RateKeys((sender.tenant, sender.user))
    return anonymous_rate_keys(sender.address)


def _retries(headers: Mapping[str, str]) -> bool:
    agent = headers.get("User-Agent", "")
    known = any(name in agent for name in _RETRYING_AGENTS)
    return known or any(name in headers for name in _RETRYING_HEADERS)


def record_user(request: web.Request, sender: Sender, named: str) -> None:
    """Count a request for the user that it names."""
    request[PAYER] = request[PAYER]._replace(user=sender.user_or(named))


def sender_with(
    credential: str | None, address: str, context: GatewayContext, needed: Scope = Scope.API
) -> Sender:
    """The sender with a key or token.

    If no tenant ever had a key, it is the open tenant, whatever key the client sends: OpenAI's
    clients always send one. Without the tenants' keys, only a session's token is accepted.

    Raises:
        AuthenticationFailed: the key is wrong, or the token is not valid.
        NotPermitted: the key lacks the `needed` scope, or the tenant was removed.
        Gone: the session is known to have been ended.
        Overloaded: the keys of the identity provider cannot be fetched.
    """
    known = context.tenants.with_key(credential, context.wall_time())
    if known is not None:
        check_scope(known.key, needed)
        return Sender(known.tenant.id, address, key=known.key.id)
    try:
        claims = context.access.tokens.verify_any(credential, context.wall_time())
    except AuthenticationFailed as refused:
        if refused.code == "token_expired":
            raise
    else:
        sender = _sender_by(claims, address)
        context.access.check_grant(sender.grant)
        return sender
    if context.access.identities is not None:
        identity = context.access.identities.tokens.verify(credential, context.wall_time())
        if identity is not None:
            context.tenants.check_served(identity.tenant)
            tenant, user, expires_at = identity
            return Sender(tenant, address, user=user, identified=True, expires_at=expires_at)
    if context.tenants.open_to_all:
        return Sender(OPEN_TENANT, address, known=False)
    raise AuthenticationFailed(
        "this needs a tenant's key, or a token, as `Authorization: Bearer <key>`; "
        "nothing was generated",
        code="invalid_api_key",
    )


def _sender_by(claims: SessionClaims, address: str) -> Sender:
    # A ticket opens its response at Evenflow's own paths only, so a sender with one has no rights.
    may = claims.may if claims.only_for is None else frozenset[Right]()
    channel, user, key = claims.channel, claims.known_user, claims.key
    expires_at = claims.expires_at
    return Sender(
        channel.tenant,
        address,
        channel,
        user,
        key=key,
        may=may,
        expires_at=expires_at,
        claims=claims,
    )


def counted_caller(context: GatewayContext, sender: Sender) -> Caller:
    """The caller that a sender's messages count for. Where no tenant has a key, all are of one."""
    tenant, address = context.access.sender(sender.tenant, sender.address)
    return sender.payer._replace(tenant=tenant, address=address)


def reading_line(context: GatewayContext, sender: Sender) -> Line:
    """The line in which a sender's requests wait to be read. Its rate counts their bytes."""
    return Line(*context.access.sender(sender.tenant, sender.address))


def first_token_ms(request: web.BaseRequest) -> int | None:
    """The wanted time to the first token, in milliseconds. None: the request has none.

    Raises:
        InvalidRequest: the header is no whole number from 1 on.
    """
    header = request.headers.get(TTFT_HEADER)
    if header is None:
        return None
    return min(whole_number(TTFT_HEADER, header, 0, lowest=1), _LONGEST_WAIT_MS)


def digest_of(key: str, sender: Sender) -> str:
    """The digest that names the channel of an `Idempotency-Key`: 40 hexadecimal digits."""
    # It is bound to its sender: with a guessed key no other sender receives the answer.
    return text_digest(sender.own(key) if sender.known else f"{key}\n{sender.address}")


def text_digest(text: str) -> str:
    """The SHA-256 digest of a text, shortened to 40 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:40]
