"""The OpenAPI document against the running server: schemathesis calls every operation with what is allowed and what isn't."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import FailureGroup

from stream_core.api_documents.openapi import openapi_document
from stream_core.policy.limits import Limits
from tests.integration.chat_client import chat_message, demo
from tests.integration.conftest import ServeProcess
from tests.integration.openai.tools import TOOLS
from tests.integration.server_process import ServerProcess

_CONFIG = {
    "seed": 1,
    "generation": {
        "max-examples": 40,
        "deterministic": True,
        "database": "none",
        "no-shrink": True,
        "with-security-parameters": False,  # every call below has its token
    },
    # What the schemas allow may contradict what there is: an index behind the end, an owner that there never was.
    "checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", 400, 401, 404, 409, 410, 426]}},
}
# What the server serves: test_api_documents compares the two.
schema = schemathesis.openapi.from_dict(openapi_document(Limits()), config=SchemathesisConfig.from_dict(_CONFIG))


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
    """One whose limits no test reaches."""
    return serve_module(messages_per_second=1000, messages_in_flight_per_session=200, response_ttl_seconds=600)


@pytest.fixture(scope="module")
def reader(server: ServerProcess) -> Reader:
    opened = _post(f"{server.http_url}/session", {}, {})
    headers = {"Authorization": f"Bearer {opened['token']}"}
    accepted = _post(f"{server.http_url}/chat/message", chat_message("m1", None, demo(tokens=20, gap_ms=1)), headers)
    reader = Reader(opened["token"], accepted["response_id"])
    events = urllib.request.Request(f"{server.http_url}/chat/message/{reader.response_id}/events", headers=headers)
    with urllib.request.urlopen(events, timeout=20) as answer:
        assert b"chat.response.completed" in answer.read()
    return reader


def _post(url: str, body: object, headers: dict[str, str]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    with urllib.request.urlopen(request, timeout=20) as answer:
        told: dict[str, Any] = json.load(answer)
        return told


@schema.parametrize()
def test_every_call_answers_as_the_document_says(
    case: schemathesis.Case[Any], server: ServerProcess, reader: Reader
) -> None:
    case.call_and_validate(server.http_url, headers=reader.headers, timeout=20)


@schema.include(path_regex="response_id").parametrize()
def test_calls_about_a_response_that_there_is(
    case: schemathesis.Case[Any], server: ServerProcess, reader: Reader
) -> None:
    case.path_parameters = {"response_id": reader.response_id}
    case.call_and_validate(server.http_url, headers=reader.headers, timeout=20)


_ASKED = {"model": "demo", "messages": [{"role": "user", "content": demo(tokens=20, gap_ms=1)}]}


@pytest.mark.parametrize("more", [{}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}])
def test_a_completion_is_as_described(more: dict[str, Any], server: ServerProcess) -> None:
    answer = _complete(server, _ASKED | more)
    assert answer.status_code == 200
    assert answer.headers["content-type"][0].startswith("text/event-stream" if more else "application/json")


@pytest.mark.parametrize("more", [{}, {"stream": True}])
def test_a_completion_with_calls_is_as_described(more: dict[str, Any], server: ServerProcess) -> None:
    called = [{"role": "user", "content": demo(tokens=2, gap_ms=1, calls=2)}]
    answer = _complete(server, {"model": "demo", "messages": called, "tools": TOOLS} | more)
    assert answer.status_code == 200
    assert answer.content.count(b'"call_1_') == 2


@pytest.mark.parametrize(("fail_after", "status"), [(0, 502), (10, 200)])
def test_a_stream_that_fails_is_as_described(fail_after: int, status: int, server: ServerProcess) -> None:
    text = demo(tokens=20, gap_ms=1, fail_after=fail_after, fail_attempts=9)
    answer = _complete(server, {"model": "demo", "messages": [{"role": "user", "content": text}], "stream": True})
    assert answer.status_code == status
    assert b'"code":"upstream_failed"' in answer.content


def test_a_chunk_that_is_not_as_described_is_found(server: ServerProcess) -> None:
    case = _completion(_ASKED | {"stream": True})
    answer = case.call(server.http_url, timeout=20)
    answer.content = answer.content.replace(b'"finish_reason":"stop"', b'"finish_reason":"tired"')
    assert b"tired" in answer.content
    with pytest.raises(FailureGroup):
        case.validate_response(answer)


def _complete(server: ServerProcess, body: dict[str, Any]) -> schemathesis.Response:
    return _completion(body).call_and_validate(server.http_url, timeout=20, excluded_checks=[not_a_server_error])


def _completion(body: dict[str, Any]) -> schemathesis.Case[Any]:
    return schema["/v1/chat/completions"]["POST"].Case(body=body, media_type="application/json")
