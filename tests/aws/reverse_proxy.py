"""haproxy as CloudFront and the load balancer: one entry port, the stacks' routes, stickiness by
cookie.

What differs from AWS:
- One hop and plain HTTP, where CloudFront and the load balancer are two and the viewer's is TLS.
- The cookie alone makes a client stick; the load balancer wants its own encrypted AWSALBAPP cookie
  back as well.
- Nothing is cached or compressed, and headers are passed on whole: CloudFront's cache, origin
  request and response headers policies are not applied, nor the methods that a behavior allows.
- A handler whose health check fails gets no new requests after 3 checks of 2 s; the stacks have
  longer ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.aws.edge_routes import EdgeRoutes

_HTTP_TARGETS = "targets_8080"
_DEFAULTS = """\

defaults
    mode http
    option http-no-delay
    option redispatch
    retries 2
    timeout connect 5s
    timeout http-request 10s
"""


@dataclass(frozen=True)
class HandlerTarget:
    """A handler process: its name, and the ports of 127.0.0.1 that stand for the container's
    8080 and 8081.
    """

    name: str
    http_port: int
    ws_port: int

    def port(self, container_port: int) -> int:
        """What stands for that port of the container."""
        return {8080: self.http_port, 8081: self.ws_port}[container_port]


def configuration(
    routes: EdgeRoutes,
    targets: Sequence[HandlerTarget],
    *,
    port: int,
    http_api_port: int,
    page_port: int,
) -> str:
    """haproxy's configuration file."""
    idle = routes.idle_timeout_seconds
    lines = [
        _DEFAULTS
        + f"    timeout client {idle}s\n    timeout server {idle}s\n    timeout tunnel {idle}s\n",
        *_frontend(routes, port),
        *_backend("http_api", http_api_port),
        *_backend("page", page_port),
    ]
    for container_port in sorted({rule.target_port for rule in routes.rules}):
        lines += _target_group(routes, targets, container_port)
    return "\n".join(lines) + "\n"


def _frontend(routes: EdgeRoutes, port: int) -> Iterator[str]:
    yield f"frontend edge\n    bind 127.0.0.1:{port}"
    yield "    option forwardfor"
    yield "    http-request set-header x-forwarded-proto http"
    # CloudFront's function overwrites what a viewer sets.
    yield "    http-request set-header x-evenflow-host %[req.hdr(host)]"
    unmatched = "!{ var(txn.origin) -m found }"
    for behavior in routes.behaviors:
        matches = f"{{ path_reg {_expression(behavior.pattern)} }} {unmatched}"
        yield f"    http-request set-var(txn.origin) str({behavior.origin}) if {matches}"
    unmatched = "!{ var(txn.targets) -m found }"
    for rule in routes.rules:
        for pattern in rule.patterns:
            matches = (
                f"{{ var(txn.origin) -m str load_balancer }} {{ path_reg {_expression(pattern)} }} "
                f"{unmatched}"
            )
            yield (
                f"    http-request set-var(txn.targets) str(targets_{rule.target_port}) if "
                f"{matches}"
            )
    yield (
        "    http-request return status 404 if { var(txn.origin) -m str load_balancer } "
        f"{unmatched}"
    )
    yield "    use_backend %[var(txn.targets)] if { var(txn.targets) -m found }"
    yield "    use_backend %[var(txn.origin)]\n"


def _backend(name: str, port: int) -> Iterator[str]:
    yield f"backend {name}\n    server {name} 127.0.0.1:{port}\n"


def _target_group(
    routes: EdgeRoutes, targets: Sequence[HandlerTarget], container_port: int
) -> Iterator[str]:
    name = f"targets_{container_port}"
    yield f"backend {name}\n    balance leastconn"
    if name == _HTTP_TARGETS:
        yield f"    stick-table type string len 64 size 100k expire {routes.sticky_seconds}s"
    # One table for both ports: a server has the same name in each.
    yield f"    stick match req.cook({routes.sticky_cookie}) table {_HTTP_TARGETS}"
    yield f"    stick store-response res.cook({routes.sticky_cookie}) table {_HTTP_TARGETS}"
    yield f"    option httpchk GET {routes.health_path}"
    yield f"    http-check expect status {routes.healthy_codes}"
    for target in targets:
        check = f"check port {target.http_port} inter 2s fall 3 rise 1"
        yield f"    server {target.name} 127.0.0.1:{target.port(container_port)} {check}"
    yield ""


def _expression(pattern: str) -> str:
    return (
        "^"
        + re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".").replace("\\", "\\\\")
        + "$"
    )
