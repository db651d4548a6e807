"""The table of hop faults: what hops do wrong, the effect, and the setting to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message

NGINX, HAPROXY, CADDY, TRAEFIK, AWS, SERVER = (
    *("nginx", "haproxy", "Caddy", "Traefik", "AWS", "Evenflow"),
)
ANY = "any hop"
# Hops name themselves in these headers.
_NAMING_HEADERS = ("Server", "Via", "X-Cache", "X-Served-By", "X-Powered-By", "CF-Ray", "Alt-Svc")
_SIGNS = {
    "nginx": NGINX,
    "haproxy": HAPROXY,
    "caddy": CADDY,
    "traefik": TRAEFIK,
    "cloudfront": AWS,
    "awselb": AWS,
}


@dataclass(frozen=True, slots=True)
class HopFault:
    """A fault of a hop.

    Args:
        name: one word, for the report and the page.
        what: what the hop does.
        effect: what readers notice.
        settings: by hop, the setting to change.
        is_harmless: whether readers can live with it.
    """

    name: str
    what: str
    effect: str
    settings: Mapping[str, str] = field(hash=False)
    is_harmless: bool = False


BUFFERING = HopFault(
    "buffering",
    "a hop holds pieces of a stream back",
    "Readers see nothing for seconds, then a lot of text at once.",
    {
        NGINX: "`proxy_buffering off;` in this location, or no `proxy_ignore_headers "
        "X-Accel-Buffering;`: Evenflow sends `X-Accel-Buffering: no`",
        HAPROXY: "`option http-no-delay`; no `http-response wait-for-body`, and no filter that "
        "collects bodies (SPOE, Lua)",
        CADDY: "`flush_interval -1` in `reverse_proxy`; no `encode` for these paths",
        TRAEFIK: "no `buffering` middleware on these routers",
        AWS: "streams go from CloudFront to a load balancer; an API Gateway or a Lambda function "
        "as the load balancer's target collects whole answers",
    },
)
COMPRESSION = HopFault(
    "compression",
    "a hop compresses event streams",
    "It costs a compressor for each reader. If the hop doesn't flush it, pieces are held back.",
    {
        NGINX: "`gzip_types` without `text/event-stream` and without `*`, or `gzip off;` in this "
        "location",
        HAPROXY: "`compression type` without `text/event-stream`; `Cache-Control: no-transform` "
        "must stay on the answer",
        CADDY: "`encode` with a `match` that leaves `text/event-stream` out",
        TRAEFIK: "`compress.excludedContentTypes: [text/event-stream]`",
        AWS: "`Compress: false` in the behavior of CloudFront",
    },
    is_harmless=True,
)
UPGRADE = HopFault(
    "upgrade",
    "a hop removes `Upgrade` and `Connection` from the handshake",
    "No WebSocket opens: clients fall back to event streams and polls.",
    {
        NGINX: "`proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header "
        'Connection "upgrade";`',
        HAPROXY: "no `http-request del-header` of them; `mode http` passes upgrades by itself",
        CADDY: "no `header_up -Upgrade` and `header_up -Connection`; `reverse_proxy` passes them",
        TRAEFIK: "no `headers` middleware that empties them; Traefik passes upgrades by itself",
        AWS: "an origin request policy that has `Sec-WebSocket-*`; a load balancer's HTTP listener "
        "passes upgrades by itself",
    },
)
HTTP_1_0 = HopFault(
    "http-1.0",
    "a hop speaks HTTP/1.0",
    "No WebSocket opens, and a stream that was cut looks complete.",
    {
        NGINX: "`proxy_http_version 1.1;`",
        HAPROXY: "no `h1-adjust`, no `http-request set-…` that changes the version",
        ANY: "HTTP/1.1 to the server and to clients",
    },
)
NO_WEBSOCKETS = HopFault(
    "no-websockets",
    "a hop refuses WebSockets",
    "Clients fall back to event streams and polls.",
    {
        NGINX: "a `location` for `/ws` and `/realtime` with `proxy_pass`",
        HAPROXY: "no `http-request deny` for them; a rule that routes `/ws` and `/realtime`",
        AWS: "a behavior of CloudFront and a rule of the load balancer for `/ws` and `/realtime`",
        ANY: "allow `GET` with `Upgrade: websocket` (firewalls have a setting for it)",
    },
)
SUBPROTOCOL = HopFault(
    "subprotocol",
    "a hop removes `Sec-WebSocket-Protocol` from the handshake or its answer",
    "Browsers can't send the session's token: no WebSocket opens.",
    {
        ANY: "pass `Sec-WebSocket-Protocol` on, both ways",
        AWS: "name it in the origin request policy",
    },
)
CUT = HopFault(
    "cut",
    "a hop cuts a stream while pieces are still coming",
    "Readers reconnect and resume again and again; clients of `/v1` lose the answer.",
    {
        NGINX: "`proxy_read_timeout` is no limit of this kind: look at `limit_rate`, "
        "`lingering_…` and the error log",
        HAPROXY: "no `http-response wait-for-body` and no `bandwidth-limit`; the log's termination "
        "state says which side ended it",
        TRAEFIK: "`respondingTimeouts.writeTimeout: 0` and `readTimeout: 0` of the entry point",
        CADDY: "`stream_timeout 0` of `reverse_proxy`; `servers { timeouts { write 0 } }`",
        AWS: "no API Gateway (30 s) in front; for the load balancer look at target health",
        ANY: "the limit on a request's total time, such as Envoy's route `timeout: 0s`",
    },
)
IDLE = HopFault(
    "idle",
    "a hop closes silent connections before Evenflow's heartbeat comes",
    "The connection breaks while the model thinks. Readers reconnect; clients of `/v1` lose the "
    "answer.",
    {
        NGINX: "`proxy_read_timeout 90s; proxy_send_timeout 90s;`",
        HAPROXY: "`timeout client 90s`, `timeout server 90s`, `timeout tunnel 90s`",
        CADDY: "`transport http { read_timeout 0 }` and no `servers { timeouts { idle … } }` below "
        "90 s",
        TRAEFIK: "`respondingTimeouts.idleTimeout: 180s`, `readTimeout: 0`; "
        "`serversTransport.forwardingTimeouts.responseHeaderTimeout: 0s`",
        AWS: "`idle_timeout.timeout_seconds` of the load balancer 65 or more; CloudFront's origin "
        "read timeout 60 s",
        SERVER: "where the hop is not yours: a shorter EVENFLOW_SSE_HEARTBEAT_SECONDS and "
        "EVENFLOW_HEARTBEAT_SECONDS",
    },
)
BODY_SIZE = HopFault(
    "body-size",
    "a hop refuses bodies that Evenflow would take",
    "Long conversations and images of `/v1` fail with 413.",
    {
        NGINX: "`client_max_body_size 5m;`",
        HAPROXY: "no `http-request deny` on `req.body_size` or `req.hdr(content-length)`",
        CADDY: "`request_body { max_size 5MB }`, or none",
        TRAEFIK: "`buffering.maxRequestBodyBytes` 0, or no such middleware",
        AWS: "no Lambda function behind the load balancer for `/v1` (1 MB); the web ACL's rule "
        "SizeRestrictions_BODY counts instead of blocking",
    },
)
AUTHORIZATION = HopFault(
    "authorization",
    "a hop removes `Authorization` from requests",
    "Every call is refused with 401 token_missing.",
    {
        NGINX: 'no `proxy_set_header Authorization "";`',
        HAPROXY: "no `http-request del-header authorization`",
        CADDY: "no `header_up -Authorization`; `basic_auth`, `forward_auth` for other paths only",
        TRAEFIK: "`basicAuth.removeHeader: false`; `forwardAuth.authResponseHeaders` without it",
        AWS: "an origin request policy that passes all of a viewer's headers",
    },
)
COOKIES = HopFault(
    "cookies",
    "a hop drops cookies",
    "`EventSource` can't read (401), and a load balancer can't keep a client at its node.",
    {
        NGINX: "no `proxy_hide_header Set-Cookie;`, no `proxy_ignore_headers Set-Cookie;`, no "
        '`proxy_set_header Cookie "";`',
        HAPROXY: "no `http-request del-header cookie`, no `http-response del-header set-cookie`",
        CADDY: "no `header_up -Cookie`, no `header_down -Set-Cookie`",
        TRAEFIK: "no `headers` middleware that empties `Cookie` or `Set-Cookie`",
        AWS: "`Cookies: all` in the origin request policy",
    },
)
STICKINESS = HopFault(
    "stickiness",
    "a hop sends a client to other nodes, in spite of its cookie",
    "Still correct, with more work: other nodes copy the answer from the one that has it.",
    {
        NGINX: "`hash $cookie_WSID consistent;` in `upstream`",
        HAPROXY: "`stick match req.cook(WSID)` and `stick store-response res.cook(WSID)`",
        CADDY: "`lb_policy cookie`",
        TRAEFIK: "`loadBalancer.sticky.cookie`",
        AWS: "`stickiness.type: app_cookie`, `stickiness.app_cookie.cookie_name: WSID`",
    },
    is_harmless=True,
)
LAST_EVENT_ID = HopFault(
    "last-event-id",
    "a hop removes `Last-Event-ID` from requests",
    "After each reconnect an answer begins again from its start.",
    {
        NGINX: 'no `proxy_set_header Last-Event-ID "";`',
        HAPROXY: "no `http-request del-header last-event-id`",
        CADDY: "no `header_up -Last-Event-ID`",
        TRAEFIK: "no `headers` middleware that empties it",
        AWS: "an origin request policy that passes all of a viewer's headers",
    },
)
HOST = HopFault(
    "host",
    "a hop changes `Host` or the scheme, or the server does not trust it",
    "Clients are sent to an address that they can't reach. The server's own pages count as those "
    "of another origin.",
    {
        NGINX: "`proxy_set_header Host $http_host;`",
        HAPROXY: "no `http-request set-header host`",
        CADDY: "no `header_up Host {upstream_hostport}`",
        TRAEFIK: "`passHostHeader: true`",
        AWS: "CloudFront's function that sets `x-evenflow-host`, and an origin request policy with "
        "`Host`",
        SERVER: "name the proxy in EVENFLOW_TRUSTED_PROXIES, or set EVENFLOW_PUBLIC_HTTP_URL; on a "
        "loopback address also EVENFLOW_ALLOWED_HOSTS",
    },
)
CACHING = HopFault(
    "caching",
    "a hop caches answers that may not be cached",
    "Readers get old polls, and refusals of other callers.",
    {
        NGINX: "`proxy_cache off;` in this location, no `proxy_ignore_headers Cache-Control;`",
        HAPROXY: "no `http-response cache-store` for these paths",
        CADDY: "no cache handler for these paths",
        TRAEFIK: "no cache plugin on these routers",
        AWS: "the cache policy CachingDisabled, and an error caching TTL of 0",
    },
)
CORS = HopFault(
    "cors",
    "pages of this origin may not read answers",
    "The page's calls fail in the browser, without a reason.",
    {
        SERVER: "EVENFLOW_ALLOWED_ORIGINS names the origin",
        ANY: "pass `OPTIONS`, `Origin` and `Access-Control-*` on, and add none of the hop's own: "
        "browsers refuse two values of `Access-Control-Allow-Origin`",
        AWS: "`AllowedMethods` with OPTIONS in the behavior of CloudFront",
    },
)
REDIRECT = HopFault(
    "redirect",
    "a hop redirects calls",
    "Clients lose bodies and tokens, and a WebSocket doesn't follow redirects.",
    {ANY: "give clients the address that the redirect leads to; exempt Evenflow's paths from it"},
)
FOREIGN = HopFault(
    "foreign",
    "another server answers",
    "Calls don't reach Evenflow, but a portal, a login page, a firewall or another server.",
    {
        ANY: "the route for this path and method; log in to the network; exempt Evenflow's paths "
        "from login pages and bot checks",
        AWS: "the web ACL's sampled requests, the behavior of CloudFront and the load balancer's "
        "rule for this path",
    },
)
UNREACHED = HopFault(
    "unreached",
    "a hop does not reach Evenflow",
    "Every call fails with 502 or 503.",
    {
        NGINX: "`proxy_pass` to the server's port; its error log says what fails",
        HAPROXY: "`server` and its check (`option httpchk GET /health`)",
        AWS: "the target group's health and security groups",
        ANY: "the address and the port of the server",
    },
)
TLS = HopFault(
    "tls",
    "no secure connection opens",
    "Browsers refuse the address.",
    {
        ANY: "a valid certificate for this name, with its whole chain; `https://` only "
        "where TLS is served",
        NGINX: "`ssl_certificate` with the chain",
        HAPROXY: "`bind … ssl crt` with a file that has the chain",
        AWS: "the certificate of the distribution (us-east-1) and its alternate domain names",
    },
)
CLOSING = HopFault(
    "closing",
    "a hop closes the connection after each answer",
    "Each call pays for a new connection: slower polls.",
    {
        NGINX: "`keepalive_timeout 75s;`",
        HAPROXY: "no `option httpclose`; `timeout http-keep-alive 75s`",
        ANY: "keep-alive to clients",
    },
    is_harmless=True,
)

HOP_FAULTS = (
    *(BUFFERING, COMPRESSION, CUT, IDLE),
    *(UPGRADE, HTTP_1_0, NO_WEBSOCKETS, SUBPROTOCOL),
    *(AUTHORIZATION, COOKIES, STICKINESS, LAST_EVENT_ID, HOST, CORS),
    *(BODY_SIZE, CACHING, CLOSING),
    *(REDIRECT, FOREIGN, UNREACHED, TLS),
)


def hop_names(headers: Message) -> list[str]:
    """The headers by which hops name themselves, as `name: value`."""
    return [f"{name}: {value}" for name in _NAMING_HEADERS for value in headers.get_all(name, ())]


def hops_of(names: list[str]) -> list[str]:
    """The kinds of hops that such headers name."""
    text = " ".join(names).lower()
    return list(dict.fromkeys(hop for sign, hop in _SIGNS.items() if sign in text))
