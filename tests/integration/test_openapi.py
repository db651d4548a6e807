"""The OpenAPI document against the running server: schemathesis calls every operation with what is
allowed and what isn't.

To load schemathesis and to think of its calls takes seconds, so only the process that makes them
does.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

import pytest
import requests
from hypothesis import settings

from evenflow.stream_core.api_documents.openapi import openapi_document
from evenflow.stream_core.base.limits import Limits
from tests.integration.chat_client import chat_message, demo
from tests.integration.conftest import ServeProcess
from tests.integration.openai.tools import TOOLS
from tests.integration.server_process import ServerProcess

if TYPE_CHECKING:
    import schemathesis

_DOCUMENT = openapi_document(Limits())
_OPERATIONS = [
    (method.upper(), path) for path, methods in _DOCUMENT["paths"].items() for method in methods
]
_UNKNOWN_HEADER = "x-schemathesis-unknown-property"
_ABOUT_A_RESPONSE = [(method, path) for method, path in _OPERATIONS if "response_id" in path]


@pytest.fixture(scope="module")
def api() -> schemathesis.BaseSchema:
    """What the server serves: test_api_documents compares the two."""
    from schemathesis.config import SchemathesisConfig
    from schemathesis.openapi import from_dict

    config = {
        "seed": 1,
        "generation": {
            # Beside what the schemas' bounds and examples make it call.
            "max-examples": settings().max_examples // 10,
            "deterministic": True,
            "database": "none",
            "no-shrink": True,
            "with-security-parameters": False,  # every call below has its token
        },
        # What the schemas allow may contradict what there is: an index behind the end, an owner
        # that there never was.
        "checks": {
            "positive_data_acceptance": {
                "expected-statuses": ["2xx", 400, 401, 404, 409, 410, 426]
            },
            # A text that is too long may be too large for a body, too.
            "negative_data_rejection": {
                "expected-statuses": [
                    400,
                    401,
                    403,
                    404,
                    405,
                    406,
                    409,
                    413,
                    415,
                    422,
                    428,
                    429,
                    "5xx",
                ]
            },
        },
    }
    return from_dict(_DOCUMENT, config=SchemathesisConfig.from_dict(config))


@dataclass(frozen=True)
class Reader:
    """A session with a response that has ended."""

    token: str
    response_id: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture(scope="module")
def server(serve_module: ServeProcess) -> ServerProcess:
    """One whose limits no test reaches. In this process its dice would be hypothesis' dice."""
    return serve_module(
        messages_per_second=1000, messages_in_flight_per_session=200, response_ttl_seconds=600
    )


@pytest.fixture(scope="module")
def reader(server: ServerProcess) -> Reader:
    opened = _post(f"{server.http_url}/session", {}, {})
    headers = {"Authorization": f"Bearer {opened['token']}"}
    accepted = _post(
        f"{server.http_url}/chat/message",
        chat_message("m1", None, demo(tokens=20, gap_ms=1)),
        headers,
    )
    reader = Reader(opened["token"], accepted["response_id"])
    events = urllib.request.Request(
        f"{server.http_url}/chat/message/{reader.response_id}/events", headers=headers
    )
    with urllib.request.urlopen(events, timeout=20) as answer:
        assert b"chat.response.completed" in answer.read()
    return reader


def _post(url: str, body: object, headers: dict[str, str]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    with urllib.request.urlopen(request, timeout=20) as answer:
        told: dict[str, Any] = json.load(answer)
        return told


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """Its connection serves all calls; no cookie comes with the next one."""
    with requests.Session() as session:
        session.trust_env = False
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        yield session


def _make_calls(
    operation: schemathesis.APIOperation[Any, Any, Any, Any], call: Callable[..., None]
) -> None:
    """Each call that schemathesis thinks of for this operation, as its plugin of pytest makes
    them.
    """
    from schemathesis.checks import load_all_checks
    from schemathesis.generation.feedback import FeedbackSources
    from schemathesis.pytest._test_builder import build_operation_test

    load_all_checks()
    build_operation_test(
        config=operation.schema.config,
        operation=operation,
        test_func=call,
        given_kwargs={},
        feedback=FeedbackSources(),
    )()


@pytest.mark.parametrize(("method", "path"), _OPERATIONS)
def test_every_call_answers_as_the_document_says(
    api: schemathesis.BaseSchema,
    server: ServerProcess,
    reader: Reader,
    session: requests.Session,
    method: str,
    path: str,
) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

    def call(case: schemathesis.Case[Any]) -> None:
        answer = case.call(server.http_url, session=session, headers=reader.headers, timeout=20)
        excluded: list[Any] = []
        if answer.status_code == 504 and answer.json()["error"]["code"] == "timeout":
            # An answer that is given a millisecond is late.
            excluded += [not_a_server_error, positive_data_acceptance]
        if _UNKNOWN_HEADER in (case.headers or {}):
            # Proxies and clients add headers, which are ignored.
            excluded.append(negative_data_rejection)
        case.validate_response(answer, excluded_checks=excluded)

    _make_calls(api[path][method], call)


@pytest.mark.parametrize(("method", "path"), _ABOUT_A_RESPONSE)
def test_calls_about_a_response_that_there_is(
    api: schemathesis.BaseSchema,
    server: ServerProcess,
    reader: Reader,
    session: requests.Session,
    method: str,
    path: str,
) -> None:
    def call(case: schemathesis.Case[Any]) -> None:
        case.path_parameters = {**(case.path_parameters or {}), "response_id": reader.response_id}
        case.call_and_validate(server.http_url, session=session, headers=reader.headers, timeout=20)

    _make_calls(api[path][method], call)


_ASKED = {"model": "demo", "messages": [{"role": "user", "content": demo(tokens=20, gap_ms=1)}]}


Complete = Callable[[dict[str, Any]], "schemathesis.Response"]


@pytest.fixture
def complete(api: schemathesis.BaseSchema, server: ServerProcess) -> Complete:
    """Ask for a completion; the answer is as described."""
    from schemathesis.checks import not_a_server_error

    def complete(body: dict[str, Any]) -> schemathesis.Response:
        return _completion(api, body).call_and_validate(
            server.http_url, timeout=20, excluded_checks=[not_a_server_error]
        )

    return complete


@pytest.mark.parametrize(
    "more", [{}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}]
)
def test_a_completion_is_as_described(more: dict[str, Any], complete: Complete) -> None:
    answer = complete(_ASKED | more)
    assert answer.status_code == 200
    assert answer.headers["content-type"][0].startswith(
        "text/event-stream" if more else "application/json"
    )


@pytest.mark.parametrize("more", [{}, {"stream": True}])
def test_a_completion_with_calls_is_as_described(more: dict[str, Any], complete: Complete) -> None:
    called = [{"role": "user", "content": demo(tokens=2, gap_ms=1, calls=2)}]
    answer = complete({"model": "demo", "messages": called, "tools": TOOLS} | more)
    assert answer.status_code == 200
    assert answer.content.count(b'"call_1_') == 2


@pytest.mark.parametrize(("fail_after", "status"), [(0, 502), (10, 200)])
def test_a_stream_that_fails_is_as_described(
    fail_after: int, status: int, complete: Complete
) -> None:
    text = demo(tokens=20, gap_ms=1, fail_after=fail_after, fail_attempts=9)
    answer = complete(
        {"model": "demo", "messages": [{"role": "user", "content": text}], "stream": True}
    )
    assert answer.status_code == status
    assert b'"code":"upstream_failed"' in answer.content


def test_a_chunk_that_is_not_as_described_is_found(
    api: schemathesis.BaseSchema, server: ServerProcess
) -> None:
    from schemathesis.core.failures import FailureGroup

    case = _completion(api, _ASKED | {"stream": True})
    answer = case.call(server.http_url, timeout=20)
    answer.content = answer.content.replace(b'"finish_reason":"stop"', b'"finish_reason":"tired"')
    assert b"tired" in answer.content
    with pytest.raises(FailureGroup):
        case.validate_response(answer)


def _completion(api: schemathesis.BaseSchema, body: dict[str, Any]) -> schemathesis.Case[Any]:
    return api["/v1/chat/completions"]["POST"].Case(body=body, media_type="application/json")
