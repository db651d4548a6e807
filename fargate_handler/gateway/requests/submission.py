"""Takes a request in: its sender, its body, and the message that it becomes.

It is the only message of a session of its own, so it has everything that messages have.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Mapping
from math import inf
from typing import NamedTuple, TypeVar

from aiohttp import web

from evenflow.fargate_handler.gateway.access_grant import AccessGrant
from evenflow.fargate_handler.gateway.callers import stranger
from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.fargate_handler.gateway.http_answers import (
    API_KEY,
    GRANT,
    PAYER,
    TENANT,
    address_of,
    host_of,
)
from evenflow.fargate_handler.gateway.request_body import read_body
from evenflow.fargate_handler.orchestrator.held_requests import Reading
from evenflow.fargate_handler.orchestrator.orchestrator import Submission
from evenflow.fargate_handler.orchestrator.whole_request import (
    IngestEvent,
    WholeRequest,
    repeatable_channel,
    single_channel,
)
from evenflow.stream_core.fairness.fair_queue import Line
from evenflow.stream_core.log.response_stream import ResponseStream
from evenflow.stream_core.policy.agents import MessageTerms
from evenflow.stream_core.policy.call_rates import Caller
from evenflow.stream_core.policy.channel import COMPLETION, KEYED_COMPLETION, Channel, MessageKind
from evenflow.stream_core.policy.rights import ALL_RIGHTS, Right, check_right
from evenflow.stream_core.policy.session_token import SessionClaims
from evenflow.stream_core.policy.trace_context import TRACEPARENT, known_traceparent
from evenflow.stream_core.protocol.content_encoding import GZIP
from evenflow.stream_core.protocol.errors import (
    AuthenticationFailed,
    Conflict,
    Gone,
    InvalidRequest,
)
from evenflow.stream_core.protocol.http_contract import whole_number
from evenflow.stream_core.protocol.session_init import OPEN_TENANT, bearer
from evenflow.stream_core.tenants.access import check_scope
from evenflow.stream_core.tenants.charges import Payer
from evenflow.stream_core.tenants.tenant import Scope

IDEMPOTENCY_KEY = "Idempotency-Key"
TIMEOUT_HEADER = "Evenflow-Timeout-Ms"
TTFT_HEADER = "x-slo-ttft-ms"
_LONGEST_KEY = 255
_LONGEST_WAIT_MS = 86_400_000
_READING = ("GET", "HEAD")
# Clients that retry after 408, 409, 429 and 5xx: the SDKs of OpenAI and Anthropic, Vercel's AI SDK,
# and Codex.
_RETRYING_HEADERS = ("x-stainless-lang", "x-stainless-retry-count")
_RETRYING_AGENTS = ("ai-sdk/", "codex_")

T = TypeVar("T")


class Sender(NamedTuple):
    """A tenant with its own key. With `session`, the request came with that session's token.

    `known`: whether there was a key or a token. Otherwise all that is known is the address.
    `traceparent`: the trace of its call. Empty: none.
    `key`: the id of the tenant's key. Empty: none.
    `slo_ttft_ms`: within how many milliseconds the first token is wanted.
    `identified`: whether the identity provider has said who the user is. Then names and ids of the
    user's are nobody else's, also within the tenant.
    `retries`: whether its client retries by itself after each failure.
    `expires_at`: when its token does, in seconds since the epoch. A tenant's key has its own end.
    `may`: what the session's token may do. A tenant's key may do what its scopes allow.
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

    @property
    def grant(self) -> AccessGrant:
        """By what it was let in."""
        return AccessGrant(self.tenant, self.key, self.session, self.expires_at)

    def own(self, name: str) -> str:
        """A name that the sender gives, told apart from other users' where these are known."""
        if not self.identified:
            return name
        # Two pairs never have the same text: behind the last line end stands the user, or nothing.
        user = self.user if "\n" not in self.user else f"{_digest(self.user)}\n"
        return f"{name}\n{user}"

    def own_digest(self, digest: str) -> str:
        """A digest in an id that the sender was given, told apart likewise."""
        return _digest(self.own(digest)) if self.identified else digest

    def user_or(self, named: str) -> str:
        """The user, who may be `named` by a backend. A page with a session's token names nobody:
        it could use up another's bounds.
        """
        return self.user or ("" if self.session else named)

    def named_in(self, terms: MessageTerms) -> MessageTerms:
        """A request's terms with what its call says. Who opened a session has named its user."""
        said = {"user": self.user_or(terms.user), "key": self.key, "slo_ttft_ms": self.slo_ttft_ms}
        return terms.model_copy(update=said)


SENDER = web.RequestKey("sender", Sender)
"""Who sent a request, once the intake knows."""


def sender_of(request: web.Request) -> Sender:
    """Who sent a request, as the intake has verified."""
    sender: Sender = request[SENDER]
    return sender


async def verified_sender(request: web.Request, context: GatewayContext, right: Right) -> Sender:
    """Verify who sent a request, by its `Authorization` header, or by `x-api-key` in its place.

    Raises:
        InvalidRequest: a header is wrong.
        NotPermitted: the session's token lacks the right, or the key the scope.
        Gone: the session was ended.
        OriginNotAllowed: the tenant's pages are others than the one that calls.
        EvenflowError: as for `sender_with`.
    """
    given = bearer(request.headers.get("Authorization")) or request.headers.get(API_KEY)
    if context.identities is not None:
        await context.identities.prepare(given)
    needed = Scope.READ if right is Right.READ else Scope.API
    sender = sender_with(given, address_of(request, context), context, needed)
    request[TENANT] = sender.tenant
    request[PAYER] = Payer(sender.tenant, sender.key, sender.user)
    # An answer that was asked for in time is given to its end.
    expires_at = sender.expires_at if right is Right.READ else inf
    request[GRANT] = sender.grant._replace(expires_at=expires_at)
    if sender.session is not None:
        await context.orchestrator.ended_sessions.look(sender.session)
    check_right(right, sender.may)
    context.check_origin(sender.tenant, request.headers.get("Origin"), host_of(request, context))
    return sender._replace(
        traceparent=known_traceparent(request.headers.get(TRACEPARENT)),
        slo_ttft_ms=first_token_ms(request),
        retries=_retries(request.headers),
    )


def caller_of(sender: Sender, context: GatewayContext) -> Caller:
    """Whose calls a sender's are counted with."""
    if sender.session is not None:
        writes = Right.WRITE in sender.may
        name = sender.session if writes else (sender.session, sender.may, sender.address)
        free = context.tenants.open_to_all
        return Caller(name, stranger(sender.address).sender if free else None)
    if sender.key:
        return Caller(sender=(sender.tenant, sender.key))
    if sender.identified:
        return Caller((sender.tenant, sender.user))
    return stranger(sender.address)


def _retries(headers: Mapping[str, str]) -> bool:
    agent = headers.get("User-Agent", "")
    known = any(name in agent for name in _RETRYING_AGENTS)
    return known or any(name in headers for name in _RETRYING_HEADERS)


def note_user(request: web.Request, sender: Sender, named: str) -> None:
    """Note which user a request of this sender names."""
    request[PAYER] = request[PAYER]._replace(user=sender.user_or(named))


def sender_with(
    given: str | None, address: str, context: GatewayContext, needed: Scope = Scope.API
) -> Sender:
    """Whose key or token was given.

    If no tenant ever had a key, it is the open tenant: OpenAI's clients always send some key. If
    this task doesn't know the tenants' keys, a session's token is needed.

    Raises:
        AuthenticationFailed: the key is wrong, or the token is not valid.
        NotPermitted: the key is for something else than what is `needed`, or the tenant was
            removed.
        Gone: the session is known to have been ended.
        Overloaded: the identity provider's keys can't be had.
    """
    known = context.tenants.with_key(given, context.wall_time())
    if known is not None:
        check_scope(known.key, needed)
        return Sender(known.tenant.id, address, key=known.key.id)
    try:
        claims = context.tokens.verify_any(given, context.wall_time())
    except AuthenticationFailed as refused:
        if refused.code == "token_expired":
            raise
    else:
        sender = _sender_by(claims, address)
        context.check_grant(sender.grant)
        return sender
    if context.identities is not None:
        identity = context.identities.tokens.verify(given, context.wall_time())
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
    # A ticket opens its response at Evenflow's own paths, and nothing where senders are asked for.
    may = claims.may if claims.only_for is None else frozenset[Right]()
    channel, user, key = claims.channel, claims.known_user, claims.key
    expires_at = claims.expires_at
    return Sender(channel.tenant, address, channel, user, key=key, may=may, expires_at=expires_at)


def reading_line(context: GatewayContext, sender: Sender) -> Line:
    """Where the reading of a sender's requests waits, and whom it is counted to."""
    tenant = OPEN_TENANT if context.tenants.open_to_all else sender.tenant
    return Line(tenant, sender.address)


async def read_request(
    request: web.Request,
    sender: Sender,
    context: GatewayContext,
    reading: Reading,
    read: Callable[[bytes | bytearray], T],
) -> T:
    """Read the whole body, which a known sender may have compressed, and what it asks for.

    Only bytes that have come count: a sender that announces many and sends none takes no room.

    Args:
        read: reads what it asks for. It may be called in another thread.

    Raises:
        UnsupportedMediaType: it comes in an encoding that is not taken.
        TooLarge: it is larger than allowed, or has too many values.
        InvalidRequest: it can't be decoded, or is wrong.
        RateLimited: too much was read for this sender lately.
        Overloaded: the node has no room for it.
        RequestTimeout: it came too slowly.
    """
    work, line = context.work, reading_line(context, sender)
    work.check(line)

    def grow_to(length: int) -> None:
        work.check(line)
        work.count(line, length - reading.bytes)
        reading.grow_to(length)

    encodings = (GZIP,) if sender.known else ()
    body = await read_body(request, context, context.limits.request_bytes, encodings, grow_to)
    return await work.read(line, body, read, reading.grow_to)


async def submit_request(
    context: GatewayContext,
    sender: Sender,
    key: str | None,
    asked: WholeRequest,
    terms: MessageTerms,
    size: int,
) -> ResponseStream:
    """Submit a request, and return its response. A key that was used before gives the same one.

    Args:
        size: what the request takes in memory.

    Raises:
        InvalidRequest: the key is wrong, or was used for another request.
        Gone: the key's response is no longer kept.
        RateLimited: messages come too fast, or a quota or the queue is full.
        Overloaded: this node is leaving, or the ledger can't be written.
    """
    line = reading_line(context, sender)
    event = await context.work.run(line, size, _event_of, context, sender, key, asked, terms)
    return await submit_event(context, sender, event, stays=key is not None)


async def submit_event(
    context: GatewayContext, sender: Sender, event: IngestEvent, *, stays: bool
) -> ResponseStream:
    """Submit a message with a whole request, and return its response.

    Args:
        stays: whether the response goes on if its sender leaves.

    Raises:
        NotPermitted: it is the response of an earlier request, and the sender may not read.
        EvenflowError: as for `submit_request`.
    """
    accepting = context.background.run(context.orchestrator.submit(event))
    try:
        submission = await asyncio.shield(accepting)
    except asyncio.CancelledError:
        if not stays:
            context.background.run(_leave_when_accepted(context, accepting))
        raise
    except Conflict:
        raise InvalidRequest(
            "this Idempotency-Key was used for a different request; nothing was generated, use "
            "another one",
            code="idempotency_key_reused",
            param=IDEMPOTENCY_KEY,
        ) from None
    except Gone as gone:
        if gone.code == "session_ended":
            raise
        raise Gone(
            "the answer of this Idempotency-Key is no longer kept; nothing was generated, ask "
            "again with another one",
            code=gone.code,
            param=IDEMPOTENCY_KEY,
        ) from gone
    check_may_repeat(sender, submission)
    return submission.stream


def check_may_repeat(sender: Sender, submission: Submission) -> None:
    """Check that a sender may be given a response, if it is that of an earlier request.

    Raises:
        NotPermitted: it is, and the sender may not read.
    """
    if submission.duplicate:
        check_right(Right.READ, sender.may)


def checked_key(key: str | None) -> str | None:
    """Check the `Idempotency-Key` of a request, if it has one.

    Raises:
        InvalidRequest: it is empty, or too long.
    """
    if key is not None and not 0 < len(key) <= _LONGEST_KEY:
        raise InvalidRequest(
            f"{IDEMPOTENCY_KEY} must have 1 to {_LONGEST_KEY} characters; nothing was generated",
            code="invalid_field",
            param=IDEMPOTENCY_KEY,
        )
    return key


def timeout_ms(request: web.Request, given: int | None = None) -> int | None:
    """The most milliseconds that the whole answer may take. None: no limit of the sender's.

    Args:
        given: what the body says, which comes before the header.

    Raises:
        InvalidRequest: the header is no whole number from 1 on.
    """
    header = request.headers.get(TIMEOUT_HEADER)
    if given is not None or header is None:
        return given
    return whole_number(TIMEOUT_HEADER, header, 0, lowest=1)


def first_token_ms(request: web.BaseRequest) -> int | None:
    """Within how many milliseconds the first token is wanted. None: when it can come.

    Raises:
        InvalidRequest: the header is no whole number from 1 on.
    """
    header = request.headers.get(TTFT_HEADER)
    if header is None:
        return None
    return min(whole_number(TTFT_HEADER, header, 0, lowest=1), _LONGEST_WAIT_MS)


def leave_response(context: GatewayContext, stream: ResponseStream) -> None:
    """Stop the model if it still runs, and forget the answer: nobody can come back for it."""
    if stream.log.closed:
        context.orchestrator.responses.drop(stream)
    else:
        context.background.run(_stop(context, stream))


async def _stop(context: GatewayContext, stream: ResponseStream) -> None:
    """Cancel it, whichever task generates it by now."""
    held = await context.orchestrator.find(stream.response_id, stream.channel)
    if (await context.orchestrator.cancel(held)).terminal:
        context.orchestrator.responses.drop(held)


async def _leave_when_accepted(
    context: GatewayContext, accepting: asyncio.Task[Submission]
) -> None:
    leave_response(context, (await accepting).stream)


def _event_of(
    context: GatewayContext,
    sender: Sender,
    key: str | None,
    asked: WholeRequest,
    terms: MessageTerms,
) -> IngestEvent:
    if key is None:
        channel = single_channel(sender.tenant, secrets.token_hex(16), sender.session)
        return event_of(context, sender, channel, COMPLETION, asked, terms)
    channel = repeatable_channel(sender.tenant, digest_of(key, sender), sender.session)
    return event_of(context, sender, channel, KEYED_COMPLETION, asked, terms)


def event_of(
    context: GatewayContext,
    sender: Sender,
    channel: Channel,
    kind: MessageKind,
    asked: WholeRequest,
    terms: MessageTerms,
) -> IngestEvent:
    """The message that a request becomes, the only one of its channel."""
    kind = kind.sent_with(sender.session)
    if sender.retries and kind.is_told_at_once:
        kind = kind.model_copy(update={"client_retries": True})
    text = asked.to_text()
    message_id = _digest(f"{terms.model}\n{text}")
    return IngestEvent(
        channel,
        message_id,
        None,
        text,
        kind=kind,
        terms=terms.within(sender.traceparent),
        sender=context.sender(channel, sender.address),
        asks=asked.asks,
    )


def digest_of(key: str, sender: Sender) -> str:
    """What the channel of a key is named after: 40 hexadecimal digits."""
    # Nobody is given another's answer for guessing the key. It is bound to who used it.
    return _digest(sender.own(key) if sender.known else f"{key}\n{sender.address}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:40]
