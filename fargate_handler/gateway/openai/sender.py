"""Whose request it is: by a tenant's key, or by a session's token."""

from __future__ import annotations

from typing import NamedTuple

from fargate_handler.gateway.context import GatewayContext
from stream_core.channel import Channel
from stream_core.errors import AuthenticationFailed
from stream_core.session_init import OPEN_TENANT, bearer


class Sender(NamedTuple):
    """A tenant; with its own key, unless the request came with a `session`'s token, which may name a user."""

    tenant: str
    session: Channel | None = None
    user: str = ""


def sender_of(authorization: str | None, context: GatewayContext) -> Sender:
    """Who sent a request with this `Authorization` header.

    Where no tenant has a key, everybody is the open tenant: OpenAI's clients always send a key. Where this task doesn't know
    the tenants' keys, a session's token is needed.

    Raises:
        AuthenticationFailed: tenants have keys, and this is none of them; or a session's token has expired.
    """
    given = bearer(authorization)
    tenant = context.tenant_keys.tenant_of(given)
    if tenant is not None:
        return Sender(tenant)
    try:
        claims = context.tokens.verify(given, context.wall_time())
        return Sender(claims.channel.tenant, claims.channel, claims.user)
    except AuthenticationFailed as refused:
        if refused.code == "token_expired":
            raise
    if context.tenant_keys.open_to_all:
        return Sender(OPEN_TENANT)
    raise AuthenticationFailed(
        "this needs a tenant's key, or a session's token, as `Authorization: Bearer <key>`; nothing was generated",
        code="invalid_api_key",
    )
