"""The addresses that a client is given."""

from __future__ import annotations

from typing import NamedTuple

from functions.http_api import HttpApiRequest

_VIEWERS_HOST = "x-evenflow-host"
_SCHEME = "x-forwarded-proto"


class PublicAddress(NamedTuple):
    """Where a client goes on: its WebSocket's address, and the base of the HTTP calls."""

    ws_url: str
    http_url: str


def public_address(request: HttpApiRequest) -> PublicAddress:
    """Those of the host that the client itself has called.

    CloudFront puts that host into a header of its own, overwriting a viewer's. Who calls the HTTP API directly could
    set it, but then tells a wrong address to nobody else: the answer is never cached. The scheme is what the HTTP API
    was called by: always https in AWS.
    """
    host = request.headers.get(_VIEWERS_HOST) or request.domain
    secure = "" if request.headers.get(_SCHEME) == "http" else "s"
    return PublicAddress(f"ws{secure}://{host}/ws", f"http{secure}://{host}")
