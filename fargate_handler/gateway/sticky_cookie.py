"""The cookie by which a load balancer sends a client back to the task that it was with."""

from __future__ import annotations

from email.utils import formatdate

from fargate_handler.gateway.context import GatewayContext

NAME = "WSID"
LIFETIME_SECONDS = 3_600
"""As long as the load balancer's stickiness."""


def sticky_cookie(context: GatewayContext) -> str:
    """The value of a `Set-Cookie` header. It says `Expires`, since an ALB doesn't read `Max-Age`."""
    return _cookie(context, context.node_id, context.wall_time() + LIFETIME_SECONDS)


def released_cookie(context: GatewayContext) -> str:
    """The value of a `Set-Cookie` header that lets a client go: its next try may end at any task."""
    return _cookie(context, "", 0.0)


def _cookie(context: GatewayContext, value: str, expires_at: float) -> str:
    expires = formatdate(expires_at, usegmt=True)
    secure = "; Secure" if context.cookie_secure else ""
    return f"{NAME}={value}; Path=/; Expires={expires}; HttpOnly; SameSite=Lax{secure}"
