from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from typing import Any

import pytest
from aws_lambda_powertools import Logger

from evenflow.functions.http_api import HttpApiAnswer, HttpApiRequest, answer_event, json_answer
from evenflow.stream_core.auth.allowed_origins import AllowedOrigins
from evenflow.stream_core.base.errors import AuthenticationFailed, HostNotAllowed, Overloaded
from evenflow.stream_core.http.routes import INDEX, Route
from tests.integration.http_api_event import http_api_event

ROUTE = Route("POST", "/things/{name}", INDEX.terms)
LOGGER = Logger(service="test")
APP, NO_ORIGINS = "https://app.example.com", AllowedOrigins()


def answered(
    event: dict[str, Any],
    endpoint: Any,
    body_limit: int = 100,
    origins: AllowedOrigins = NO_ORIGINS,
    logger: Logger = LOGGER,
) -> HttpApiAnswer:
    answer = answer_event(
        event,
        ROUTE,
        endpoint,
        check_caller=lambda _: None,
        origins=origins,
        body_limit=body_limit,
        logger=logger,
    )
    assert answer["headers"]["Cache-Control"] == "no-store"
    assert answer["headers"]["Content-Type"] == "application/json"
    return answer


def request_of(event: dict[str, Any]) -> HttpApiRequest:
    seen: list[HttpApiRequest] = []

    def endpoint(request: HttpApiRequest) -> HttpApiAnswer:
        seen.append(request)
        return json_answer({})

    assert answered(event, endpoint)["statusCode"] == 200
    return seen[0]


def unreached(_request: HttpApiRequest) -> HttpApiAnswer:
    raise AssertionError("the endpoint was called")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/things/a", {"name": "a"}),
        ("/things/a.b-c_d", {"name": "a.b-c_d"}),
        ("/things/", None),
        ("/things", None),
        ("/things/a/", None),
        ("/things/a/b", None),
        ("/other/a", None),
        ("", None),
        ("things/a", None),
    ],
)
def test_a_route_matches_its_path_and_no_other(path: str, names: dict[str, str] | None) -> None:
    assert ROUTE.match(path) == names


def test_a_route_without_names() -> None:
    assert Route("POST", "/session", INDEX.terms).match("/session") == {}
    assert Route("POST", "/session", INDEX.terms).match("/session/") is None


def test_a_request_is_read() -> None:
    event = http_api_event(
        "POST", "/things/a?x=1&y=a%20b&x=2", b'{"a": 1}', {"Authorization": "Bearer t"}
    )
    request = request_of(event)
    assert request.path_names == {"name": "a"}
    assert request.query == {"x": "1,2", "y": "a b"}
    assert request.headers["authorization"] == "Bearer t"
    assert request.body == b'{"a": 1}'
    assert request.domain.endswith(".amazonaws.com")


def test_what_is_left_out_of_an_event_is_empty() -> None:
    event = http_api_event("POST", "/things/a")
    assert "body" not in event
    assert "queryStringParameters" not in event
    request = request_of(event)
    assert (request.body, request.query) == (b"", {})


@pytest.mark.parametrize("body", [b"\x00\xff", b'{"a":1}', b""])
def test_a_body_in_base64_is_decoded(body: bytes) -> None:
    event = http_api_event("POST", "/things/a") | {
        "body": base64.b64encode(body).decode(),
        "isBase64Encoded": True,
    }
    assert request_of(event).body == body


def test_half_of_a_surrogate_pair_reaches_the_parser_as_bytes() -> None:
    event = http_api_event("POST", "/things/a") | {"body": "\ud800", "isBase64Encoded": False}
    with pytest.raises(UnicodeDecodeError):
        request_of(event).body.decode()


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "allow"),
    [
        ("GET", "/things/a", 405, "method_not_allowed", "POST"),
        ("OPTIONS", "/things/a", 405, "method_not_allowed", "POST"),
        ("POST", "/thing/a", 404, "path_not_found", None),
        ("GET", "/", 404, "path_not_found", None),
    ],
)
def test_another_path_or_method_is_refused(
    method: str,
    path: str,
    status: int,
    code: str,
    allow: str | None,
    log: io.StringIO,
    logger: Logger,
) -> None:
    answer = answered(http_api_event(method, path), unreached, logger=logger)
    assert (answer["statusCode"], json.loads(answer["body"])["error"]["code"]) == (status, code)
    assert answer["headers"].get("Allow") == allow
    logged = json.loads(log.getvalue())
    assert (logged["what"], logged["code"]) == (f"{method} /things/{{name}}", code)


@pytest.mark.parametrize("content_type", ["application/json", "application/octet-stream"])
def test_a_body_counts_by_its_bytes(content_type: str) -> None:
    headers = {"Content-Type": content_type}
    fits = http_api_event("POST", "/things/a", "ä".encode() * 50, headers)
    assert answered(fits, lambda _: json_answer({}))["statusCode"] == 200
    too_large = http_api_event("POST", "/things/a", "ä".encode() * 50 + b"x", headers)
    answer = answered(too_large, unreached)
    assert (answer["statusCode"], json.loads(answer["body"])["error"]["code"]) == (
        413,
        "message_too_large",
    )


def test_an_error_of_the_contract_leaves_in_its_shape() -> None:
    def refuse(_request: HttpApiRequest) -> HttpApiAnswer:
        raise Overloaded("busy", code="keys_unavailable", retry_after_ms=1500)

    answer = answered(http_api_event("POST", "/things/a"), refuse)
    assert (answer["statusCode"], answer["headers"]["Retry-After"]) == (503, "2")
    error = {
        "type": "overloaded_error",
        "code": "keys_unavailable",
        "message": "busy",
        "retry_after_ms": 1500,
    }
    assert json.loads(answer["body"]) == {"error": error}


@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
def test_a_caller_that_is_refused_gets_no_further_and_its_page_may_read_why(
    method: str, log: io.StringIO, logger: Logger
) -> None:
    def refuse(headers: Mapping[str, str]) -> None:
        assert headers["origin"] == APP
        raise HostNotAllowed("no", code="host_not_allowed")

    asked = {"Origin": APP, "Access-Control-Request-Method": "POST"}
    answer = answer_event(
        http_api_event(method, "/things/a", headers=asked),
        ROUTE,
        unreached,
        check_caller=refuse,
        origins=AllowedOrigins([APP]),
        body_limit=100,
        logger=logger,
    )
    assert (answer["statusCode"], answer["headers"]["Access-Control-Allow-Origin"]) == (403, APP)
    logged = json.loads(log.getvalue())
    assert (logged["event"], logged["what"], logged["code"]) == (
        "refusal",
        f"{method} /things/{{name}}",
        "host_not_allowed",
    )


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        ({}, "192.0.2.1"),
        ({"x-evenflow-address": ""}, "192.0.2.1"),
        ({"x-evenflow-address": "203.0.113.7"}, "203.0.113.7"),
        ({"x-evenflow-address": "2001:db8::1:2:3"}, "2001:db8::/64"),
        ({"x-evenflow-address": "203.0.113.7", "x-forwarded-for": "198.51.100.1"}, "203.0.113.7"),
    ],
)
def test_the_viewers_address_is_what_cloudfront_says(headers: dict[str, str], address: str) -> None:
    assert request_of(http_api_event("POST", "/things/a", headers=headers)).address == address


def test_whoever_has_no_token_is_told_the_scheme() -> None:
    def refuse(_request: HttpApiRequest) -> HttpApiAnswer:
        raise AuthenticationFailed("no", code="token_missing")

    assert (
        answered(http_api_event("POST", "/things/a"), refuse)["headers"]["WWW-Authenticate"]
        == "Bearer"
    )


@pytest.mark.parametrize(
    "event", [http_api_event("POST", "/things/a"), {}, {"requestContext": {"http": {}}}]
)
def test_a_defect_is_logged_and_not_told(
    event: dict[str, Any], log: io.StringIO, logger: Logger
) -> None:
    def fail(_request: HttpApiRequest) -> HttpApiAnswer:
        raise RuntimeError("the details")

    answer = answer_event(
        event,
        ROUTE,
        fail,
        check_caller=lambda _: None,
        origins=NO_ORIGINS,
        body_limit=100,
        logger=logger,
    )
    error = json.loads(answer["body"])["error"]
    assert (answer["statusCode"], error["type"], error["code"]) == (
        500,
        "internal_error",
        "internal_error",
    )
    assert "details" not in answer["body"]
    logged = json.loads(log.getvalue())
    assert logged["level"] == "ERROR"
    assert logged["exception_name"] in ("RuntimeError", "KeyError")


# -- pages of other origins ------------------------------------------------------------------------


def test_every_answer_says_who_may_read_it() -> None:
    allowed = AllowedOrigins([APP])

    def refuse(_request: HttpApiRequest) -> HttpApiAnswer:
        raise Overloaded("busy", code="keys_unavailable", retry_after_ms=1500)

    def fail(_request: HttpApiRequest) -> HttpApiAnswer:
        raise RuntimeError

    calls = [
        ("POST", "/things/a", lambda _: json_answer({})),
        ("POST", "/things/a", refuse),
        ("POST", "/things/a", fail),
    ]
    for method, path, endpoint in [
        *calls,
        ("GET", "/things/a", unreached),
        ("POST", "/nowhere", unreached),
    ]:
        told = answered(
            http_api_event(method, path, headers={"Origin": APP}), endpoint, origins=allowed
        )["headers"]
        assert (told["Access-Control-Allow-Origin"], told["Vary"]) == (APP, "Origin")
        for headers in ({}, {"Origin": "https://evil.example"}):
            untold = answered(
                http_api_event(method, path, headers=headers), endpoint, origins=allowed
            )["headers"]
            assert "Access-Control-Allow-Origin" not in untold
            assert untold["Vary"] == "Origin"


def test_a_preflight_is_answered_without_the_endpoint() -> None:
    headers = {"Origin": APP, "Access-Control-Request-Method": "POST"}
    event = http_api_event("OPTIONS", "/things/a", headers=headers)
    answer = answer_event(
        event,
        ROUTE,
        unreached,
        check_caller=lambda _: None,
        origins=AllowedOrigins([APP]),
        body_limit=100,
        logger=LOGGER,
    )
    assert (answer["statusCode"], answer["body"]) == (204, "")
    assert answer["headers"]["Access-Control-Allow-Origin"] == APP
    assert "Authorization" in answer["headers"]["Access-Control-Allow-Headers"]
    for origins in (NO_ORIGINS, AllowedOrigins(["https://other.example"])):
        refused = answered(event, unreached, origins=origins)
        assert refused["statusCode"] == 405
        assert "Access-Control-Allow-Origin" not in refused["headers"]
