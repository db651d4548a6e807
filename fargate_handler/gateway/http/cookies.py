"""The cookies that a node sets: one for load balancers, one for the events of a response.

`EventSource` needs the second one, since it can't send a token in a header.
"""

from __future__ import annotations

from email.utils import formatdate
from functools import lru_cache
from http.cookies import Morsel

from evenflow.fargate_handler.gateway.connections.access_control import AccessControl
from evenflow.fargate_handler.gateway.connections.site import Site
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.http.routes import EVENTS

STICKY_COOKIE = "WSID"
STICKY_SECONDS = 3_600
"""As long as the load balancer's stickiness."""
EVENTS_COOKIE = "evenflow-events"


def sticky_cookie(site: Site, now: float) -> str:
    """The `Set-Cookie` that brings a client back here. An ALB reads `Expires`, not `Max-Age`.

    Args:
        now: seconds since the epoch.
    """
    return _sticky_cookie(site.node_id, int(now), site.cookie_secure)


# Thousands of clients that come back within a second are given the same one.
@lru_cache(maxsize=4)
def _sticky_cookie(node_id: str, now: int, secure: bool) -> str:
    return _cookie(secure, STICKY_COOKIE, node_id, now + STICKY_SECONDS, "/", "Lax")


def released_cookie(site: Site) -> str:
    """The `Set-Cookie` that releases a client: its next try may reach any node."""
    return _cookie(site.cookie_secure, STICKY_COOKIE, "", 0.0, "/", "Lax")


def events_cookie(
    access: AccessControl, claims: SessionClaims, response_id: str, path_prefix: str
) -> str:
    """The `Set-Cookie` that opens one response's events. It is valid as long as the token.

    Args:
        path_prefix: the prefix of this server's paths in the client's URL.
    """
    ticket, expires_at = ticket_of(access, claims, response_id)
    return _cookie(
        access.site.cookie_secure,
        EVENTS_COOKIE,
        ticket,
        expires_at,
        path_prefix + EVENTS.with_names(response_id=response_id),
        "Strict",
    )


def ticket_of(access: AccessControl, claims: SessionClaims, response_id: str) -> tuple[str, int]:
    """A token that opens one response, to be read. It is valid as long as the session's token.

    Returns:
        The ticket, and when it expires, in seconds since the epoch.
    """
    now = access.wall_time()
    return access.tokens.issue(
        claims.channel,
        now,
        claims.expires_at - int(now),
        only_for=response_id,
        key=claims.key,
    )


def _cookie(
    secure: bool,
    name: str,
    value: str,
    expires_at: float,
    path: str,
    same_site: str,
) -> str:
    cookie: Morsel[str] = Morsel()
    cookie.set(name, value, value)
    cookie["expires"] = formatdate(expires_at, usegmt=True)
    cookie["path"] = path
    cookie["samesite"] = same_site
    cookie["httponly"] = True
    cookie["secure"] = secure
    return cookie.OutputString()
