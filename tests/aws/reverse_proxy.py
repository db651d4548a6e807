"""haproxy as CloudFront and the load balancer: one entry port, the stacks' routes, stickiness by
cookie.

What differs from AWS:
- One hop and plain HTTP, where CloudFront and the load balancer are two and the viewer's is TLS.
- The cookie alone makes a client stick; the load balancer wants its own encrypted AWSALBAPP cookie
  back as well.
- Nothing is cached or compressed, and headers are passed on whole: of CloudFront's policies only
  the security headers of answers are applied (without HSTS, which is for TLS), not the cache and
  origin request policies, nor the methods that a behavior allows.
- A handler whose health check fails gets no new requests after 3 checks of 2 s; the stacks have
  longer ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from evenflow.stream_core.http.routes import EDGE_KEY_HEADER
from tests.aws.edge_routes import EdgeRoutes

_DEFAULTS = """\

defaults
    mode http
    option http-no-delay
    option redispatch
    retries 2
    timeout connect 5s
    timeout http-request 10s
"""


def configuration(
    routes: EdgeRoutes,
    handlers: Mapping[str, int],
    *,
    port: int,
    http_api_port: int,
    page_port: int,
    edge_key: str,
) -> str:
    """haproxy's configuration file.

    Args:
        handlers: by name, the port of 127.0.0.1 that stands for the container's.
        edge_key: what CloudFront shows the functions.
    """
    idle = routes.idle_timeout_seconds
    lines = [
        _DEFAULTS
        + f"    timeout client {idle}s\n    timeout server {idle}s\n    timeout tunnel {idle}s\n",
        *_frontend(routes, port),
        *_backend("http_api", http_api_port, {EDGE_KEY_HEADER: edge_key}),
        *_backend("page", page_port),
        *_target_group(routes, handlers),
    ]
    return "\n".join(lines) + "\n"


def _frontend(routes: EdgeRoutes, port: int) -> Iterator[str]:
    yield f"frontend edge\n    bind 127.0.0.1:{port}"
    yield "    option forwardfor"
    yield "    http-request set-header x-forwarded-proto http"
    # CloudFront's function overwrites what a viewer sets.
    yield "    http-request set-header x-evenflow-host %[req.hdr(host)]"
    yield "    http-request set-header x-evenflow-address %[src]"
    unmatched = "!{ var(txn.origin) -m found }"
    for number, behavior in enumerate(routes.behaviors):
        matches = f"{{ path_reg {_expression(behavior.pattern)} }} {unmatched}"
        yield f"    http-request set-var(txn.behavior) int({number}) if {matches}"
        for name, value in behavior.headers.items():
            chosen = f"{{ var(txn.behavior) -m int {number} }}"
            yield f'    http-response set-header {name} "{value}" if {chosen}'
        yield f"    http-request set-var(txn.origin) str({behavior.origin}) if {matches}"
    to_handlers = "{ var(txn.origin) -m str load_balancer }"
    for pattern in routes.handler_patterns:
        matches = f"{to_handlers} {{ path_reg {_expression(pattern)} }}"
        yield f"    http-request set-var(txn.origin) str(handlers) if {matches}"
    yield f"    http-request return status 404 if {to_handlers}"
    yield "    use_backend %[var(txn.origin)]\n"


def _backend(name: str, port: int, headers: Mapping[str, str] | None = None) -> Iterator[str]:
    yield f"backend {name}"
    for header, value in (headers or {}).items():
        yield f"    http-request set-header {header} {_word(value)}"
    yield f"    server {name} 127.0.0.1:{port}\n"


def _word(text: str) -> str:
    """A text as haproxy reads it in one word, in which % begins a variable."""
    doubled = text.replace("%", "%%")
    return "".join(one if one.isalnum() else f"\\x{ord(one):02x}" for one in doubled)


def _target_group(routes: EdgeRoutes, handlers: Mapping[str, int]) -> Iterator[str]:
    yield "backend handlers\n    balance leastconn"
    yield f"    stick-table type string len 64 size 100k expire {routes.sticky_seconds}s"
    yield f"    stick match req.cook({routes.sticky_cookie})"
    yield f"    stick store-response res.cook({routes.sticky_cookie})"
    yield f"    option httpchk GET {routes.health_path}"
    yield f"    http-check expect status {routes.healthy_codes}"
    for name, port in handlers.items():
        yield f"    server {name} 127.0.0.1:{port} check inter 2s fall 3 rise 1"
    yield ""


def _expression(pattern: str) -> str:
    return (
        "^"
        + re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".").replace("\\", "\\\\")
        + "$"
    )
