"""The URL by which a client calls this server, behind whatever proxies there are."""

from __future__ import annotations

from aiohttp import HttpVersion11, web

from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.fargate_handler.gateway.http_answers import client_of, host_of
from evenflow.stream_core.policy.forwarded import CalledUrl, authority

_SCHEMES = ("http", "https")


def public_urls_of(request: web.Request, context: GatewayContext) -> tuple[str, str]:
    """The WebSocket's address and the base of HTTP calls, for the client of this request.

    They are those that are set, else those that the client used. Where these can't be known, they
    are relative to the client's own: `/ws`, and nothing.
    """
    return context.public_urls(_called_url(request, context))


def path_prefix_of(request: web.Request, context: GatewayContext) -> str:
    """What a client writes before the paths of this server, such as `/chat`. Empty: nothing."""
    if context.http_url is not None:
        return "".join(f"/{name}" for name in context.http_url.split("/")[3:])
    return client_of(request, context).url.prefix


def _called_url(request: web.Request, context: GatewayContext) -> CalledUrl:
    url, host = client_of(request, context).url, authority(host_of(request, context))
    scheme, _, page_host = request.headers.get("Origin", "").partition("://")
    if host and page_host == host.lower() and scheme in _SCHEMES:
        # A browser says by which scheme the page of this host has come.
        return CalledUrl(scheme, host, url.prefix)
    if not url.host and _has_proxy_s_host(request, context):
        host = ""
    return CalledUrl(url.scheme or request.scheme, host, url.prefix)


def _has_proxy_s_host(request: web.Request, context: GatewayContext) -> bool:
    """Whether `Host` may be what a proxy calls this server, instead of what the client called."""
    client, host = client_of(request, context), host_of(request, context)
    if client.is_doubtful:
        return True
    # nginx, as it is without settings, calls by HTTP/1.0.
    is_old = request.version < HttpVersion11
    if (client.is_forwarded or is_old) and host.endswith(f":{context.http_port}"):
        return True  # clients call the proxy's port
    if is_old and "." not in host:
        return True  # the name of a server in nginx's configuration
    # A page of this origin may read the answer only where its browser has called the same origin.
    origin = request.headers.get("Origin")
    return (
        origin is not None
        and not context.allowed_origins.admits(origin)
        and not context.is_own_page(origin, host)
    )
