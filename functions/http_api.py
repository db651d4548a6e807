"""The HTTP API's requests and answers, and the check that a request came through CloudFront."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import orjson
from aws_lambda_powertools import Logger

from evenflow.functions.cached_secret import CachedSecret
from evenflow.stream_aws.keys import parse_key_object
from evenflow.stream_core.auth.allowed_origins import AllowedOrigins
from evenflow.stream_core.auth.session_token import key_matches
from evenflow.stream_core.base.client_address import counted_address
from evenflow.stream_core.base.errors import EvenflowError, HostNotAllowed
from evenflow.stream_core.http.content_encoding import ContentDecoder
from evenflow.stream_core.http.http_contract import (
    NEVER_CACHED,
    allow_header,
    error_headers,
    internal_error,
    method_not_allowed,
    path_not_found,
)
from evenflow.stream_core.http.routes import EDGE_KEY_HEADER, Route
from evenflow.stream_core.records.connection_records import RejectionRecord

Event = Mapping[str, Any]

# CloudFront's function sets both, and replaces what a viewer sends.
_VIEWER_HOST = "x-evenflow-host"
_VIEWER_ADDRESS = "x-evenflow-address"


class HttpApiAnswer(TypedDict):
    """What a function returns to the HTTP API."""

    statusCode: int
    headers: dict[str, str]
    body: str
    isBase64Encoded: bool


@dataclass(frozen=True, slots=True)
class HttpApiRequest:
    """One request.

    Args:
        path_names: the values of the names in the route's path.
        query: the parameters. The HTTP API joins the values of a repeated one by commas.
        headers: by their names in lower case.
        domain: the host name by which the HTTP API was called.
        address: the viewer's, as `counted_address` gives it.
    """

    path_names: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    domain: str
    address: str


Endpoint = Callable[[HttpApiRequest], HttpApiAnswer]


def answer_event(
    event: Event,
    route: Route,
    endpoint: Endpoint,
    *,
    check_caller: Callable[[Mapping[str, str]], None],
    origins: AllowedOrigins,
    body_limit: int,
    logger: Logger,
) -> HttpApiAnswer:
    """Answer an event by `endpoint`. Errors become answers, too.

    Args:
        endpoint: may raise `EvenflowError`. Any other exception is a fault of ours: it is logged,
            and becomes a 500 `internal_error`.
        check_caller: called first, with the headers. It may raise `EvenflowError`.
        origins: the origins whose pages may read the answer.
        body_limit: the most bytes of a body. Larger ones are answered with 413.
    """
    headers = _headers(event)
    answer = (
        _refusal(event, headers, check_caller, route, logger)
        or _preflight(event, headers, origins)
        or _answer(event, route, endpoint, origins, body_limit, logger)
    )
    answer["headers"] |= origins.answer_headers(headers.get("origin"))
    return answer


def _refusal(
    event: Event,
    headers: Mapping[str, str],
    check_caller: Callable[[Mapping[str, str]], None],
    route: Route,
    logger: Logger,
) -> HttpApiAnswer | None:
    try:
        check_caller(headers)
    except EvenflowError as error:
        return _refused(error, event, route, logger)
    return None


def _preflight(
    event: Event, headers: Mapping[str, str], origins: AllowedOrigins
) -> HttpApiAnswer | None:
    allowed = origins.preflight_headers(
        _method(event), headers.get("origin"), headers.get("access-control-request-method")
    )
    return (
        None
        if allowed is None
        else {"statusCode": 204, "headers": allowed, "body": "", "isBase64Encoded": False}
    )


def _answer(
    event: Event,
    route: Route,
    endpoint: Endpoint,
    origins: AllowedOrigins,
    body_limit: int,
    logger: Logger,
) -> HttpApiAnswer:
    try:
        http = event["requestContext"]["http"]
        origins.check_unasked(http["method"], _headers(event))
        names = route.match(event["rawPath"])
        if names is None:
            raise path_not_found(event["rawPath"])
        if http["method"] != route.method:
            refusal = method_not_allowed(http["method"], event["rawPath"])
            return _refused(refusal, event, route, logger, allow_header([route.method]))
        return endpoint(_request(event, names, body_limit))
    except EvenflowError as error:
        return _refused(error, event, route, logger)
    except Exception:
        logger.exception("the request failed")
        return _error_answer(internal_error())


def _refused(
    error: EvenflowError,
    event: Event,
    route: Route,
    logger: Logger,
    headers: Mapping[str, str] | None = None,
) -> HttpApiAnswer:
    refusal = RejectionRecord.of(error, "http", f"{_method(event)} {route.public_path}")
    logger.info(str(refusal), extra=refusal.to_fields())
    return _error_answer(error, headers)


def json_answer(
    body: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> HttpApiAnswer:
    """A JSON answer that must not be cached."""
    all_headers = {"Content-Type": "application/json", **NEVER_CACHED, **(headers or {})}
    text = orjson.dumps(body).decode()
    return {"statusCode": status, "headers": all_headers, "body": text, "isBase64Encoded": False}


def _error_answer(error: EvenflowError, headers: Mapping[str, str] | None = None) -> HttpApiAnswer:
    return json_answer(error.to_body(), error.status, {**error_headers(error), **(headers or {})})


def _request(event: Event, path_names: Mapping[str, str], body_limit: int) -> HttpApiRequest:
    headers = _headers(event)
    decoder = ContentDecoder(headers.get("content-encoding"), (), body_limit)
    body = b"".join(decoder.feed(_body(event)))
    return HttpApiRequest(
        path_names=path_names,
        query=event.get("queryStringParameters") or {},
        headers=headers,
        body=body,
        domain=event["requestContext"]["domainName"],
        address=counted_address(
            headers.get(_VIEWER_ADDRESS) or event["requestContext"]["http"]["sourceIp"]
        ),
    )


def _method(event: Event) -> str:
    method: str = event.get("requestContext", {}).get("http", {}).get("method", "")
    return method


def _headers(event: Event) -> dict[str, str]:
    return {name.lower(): value for name, value in (event.get("headers") or {}).items()}


def _body(event: Event) -> bytes:
    text = event.get("body") or ""
    if event.get("isBase64Encoded"):
        return base64.b64decode(text)
    # An escaped lone surrogate in the event's JSON is not UTF-8. It is left for the parser to
    # refuse.
    return str(text).encode("utf-8", "surrogatepass")


_SCHEME = "x-forwarded-proto"


class PublicAddress(NamedTuple):
    """A client's addresses for further calls: its WebSocket's, and the base of the HTTP calls."""

    ws_url: str
    http_url: str


def public_address(request: HttpApiRequest) -> PublicAddress:
    """The addresses for further calls, at the host that the client called.

    CloudFront puts that host into a header of its own, in place of any that a viewer sends. The
    scheme is that of the call: in AWS always https.
    """
    host = request.headers.get(_VIEWER_HOST) or request.domain
    secure = "" if request.headers.get(_SCHEME) == "http" else "s"
    return PublicAddress(f"ws{secure}://{host}/ws", f"http{secure}://{host}")


_SHORTEST_EDGE_KEY = 32


def parse_edge_keys(secret_string: str) -> dict[str, str]:
    """Read the keys that CloudFront may show, by name.

    Raises:
        KeysUnreadable: the secret is wrong. The message has no key.
    """
    return parse_key_object(secret_string, called="edge keys", shortest=_SHORTEST_EDGE_KEY)


class EdgeKeys:
    """The keys of which CloudFront adds one to each request. Several, so that they can be rotated.

    Args:
        client: a boto3 client of Secrets Manager.
    """

    def __init__(self, client: Any, secret_id: str, logger: Logger) -> None:
        self._keys = CachedSecret(client, secret_id, parse_edge_keys, logger)

    def check(self, headers: Mapping[str, str]) -> None:
        """Check that a request came through CloudFront.

        Args:
            headers: by their names in lower case.

        Raises:
            HostNotAllowed: it did not.
            Overloaded: the keys cannot be read.
        """
        key_in_request = headers.get(EDGE_KEY_HEADER)
        # All are compared, so that the time it takes does not tell which one it is.
        matching = [key for key in self._keys.get().values() if key_matches(key_in_request, key)]
        if not matching:
            raise HostNotAllowed(
                "this address is not for clients; nothing was done, call the address of the "
                "CloudFront distribution",
                code="host_not_allowed",
            )
