"""Finds the URL by which a client calls this server, also behind proxies."""

from __future__ import annotations

from aiohttp import HttpVersion11, web

from evenflow.fargate_handler.gateway.connections.site import Site
from evenflow.fargate_handler.gateway.http.verified_request import client_of, host_of
from evenflow.stream_core.base.client_address import CalledUrl, authority

_SCHEMES = ("http", "https")


def public_urls_of(request: web.Request, site: Site) -> tuple[str, str]:
    """The WebSocket's address and the base of HTTP calls, for the client of this request.

    They are the configured ones, else those that the client used. If these are unknown, they are
    relative: `/ws`, and empty.
    """
    return site.public_urls(_called_url(request, site))


def path_prefix_of(request: web.Request, site: Site) -> str:
    """The prefix of this server's paths in the client's URL, such as `/chat`. It may be empty."""
    if site.http_url is not None:
        return "".join(f"/{name}" for name in site.http_url.split("/")[3:])
    return client_of(request, site).url.prefix


def _called_url(request: web.Request, site: Site) -> CalledUrl:
    url, host = client_of(request, site).url, authority(host_of(request, site))
    scheme, _, page_host = request.headers.get("Origin", "").partition("://")
    if host and page_host == host.lower() and scheme in _SCHEMES:
        # The page is from this host, and its Origin has the scheme of the client's URL.
        return CalledUrl(scheme, host, url.prefix)
    if not url.host and _has_proxy_s_host(request, site):
        host = ""
    return CalledUrl(url.scheme or request.scheme, host, url.prefix)


def _has_proxy_s_host(request: web.Request, site: Site) -> bool:
    """Whether `Host` may be a proxy's name for this server, instead of the client's."""
    client, host = client_of(request, site), host_of(request, site)
    if client.is_doubtful:
        return True
    # By default nginx uses HTTP/1.0 for the servers behind it.
    is_old = request.version < HttpVersion11
    if (client.is_forwarded or is_old) and host.endswith(f":{site.http_port}"):
        return True  # this server's own port: clients use the proxy's
    if is_old and "." not in host:
        return True  # the name of an upstream in nginx's configuration
    # A page of this origin may read the answer only where its browser has called the same origin.
    origin = request.headers.get("Origin")
    return (
        origin is not None
        and not site.allowed_origins.admits(origin)
        and not site.is_own_page(origin, host)
    )
