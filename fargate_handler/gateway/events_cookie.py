"""The cookie that opens one response's event stream, for an `EventSource`, which can send no header of its own."""

from __future__ import annotations

from email.utils import formatdate

from fargate_handler.gateway.context import GatewayContext
from stream_core.session_token import SessionClaims

NAME = "evenflow-events"


def events_cookie(context: GatewayContext, claims: SessionClaims, response_id: str) -> str:
    """The value of a `Set-Cookie` header. It is valid as long as the token that asked for it, and sent to that one path."""
    now = context.wall_time()
    ticket, expires_at = context.tokens.issue(claims.channel, now, claims.expires_at - int(now), only_for=response_id)
    path = f"/chat/message/{response_id}/events"
    secure = "; Secure" if context.cookie_secure else ""
    return f"{NAME}={ticket}; Path={path}; Expires={formatdate(expires_at, usegmt=True)}; HttpOnly; SameSite=Strict{secure}"
