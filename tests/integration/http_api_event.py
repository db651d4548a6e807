"""HTTP API events (payload format 2.0), as AWS documents them."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

EDGE_KEY = "edge-key-0123456789-0123456789-0123456789"
"""What CloudFront sends, where a test has no deployment that made one."""
DOMAIN = "a1b2c3d4e5.execute-api.us-east-1.amazonaws.com"
# Bodies of these content types come as text, all others in base64.
_TEXT = re.compile(r"text/.*|application/(json|javascript|xml)|.*\+(json|xml)", re.IGNORECASE)


def http_api_event(
    method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The event of a request.

    `path` may have a query; a value that is given twice is joined by commas.
    """
    raw_path, _, query = path.partition("?")
    lowered = {name.lower(): value for name, value in (headers or {}).items()}
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": raw_path,
        "rawQueryString": query,
        "headers": {"accept": "*/*", "content-length": str(len(body)), "host": DOMAIN, **lowered},
        "requestContext": {
            "accountId": "111111111111",
            "apiId": DOMAIN.partition(".")[0],
            "domainName": DOMAIN,
            "domainPrefix": DOMAIN.partition(".")[0],
            "http": {
                "method": method,
                "path": raw_path,
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "agent",
            },
            "requestId": f"req-{uuid.uuid4().hex}",
            "routeKey": "$default",
            "stage": "$default",
            "time": "21/Nov/2026:09:00:00 +0000",
            "timeEpoch": 1795251600000,
        },
        "isBase64Encoded": False,
    }
    if query:
        given: dict[str, list[str]] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            given.setdefault(name, []).append(value)
        event["queryStringParameters"] = {name: ",".join(values) for name, values in given.items()}
    if body:
        event |= _body(body, lowered.get("content-type", "application/octet-stream"))
    return event


def _body(body: bytes, content_type: str) -> dict[str, Any]:
    if _TEXT.fullmatch(content_type.partition(";")[0].strip()):
        return {"body": body.decode("utf-8", "replace"), "isBase64Encoded": False}
    return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
