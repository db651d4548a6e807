from __future__ import annotations

import pytest

from evenflow.stream_core.base.errors import (
    AuthenticationFailed,
    EvenflowError,
    InvalidRequest,
    Overloaded,
    UpgradeRequired,
)
from evenflow.stream_core.http.http_contract import (
    allow_header,
    body_too_large,
    error_headers,
    internal_error,
    method_not_allowed,
    path_not_found,
    whole_number,
)


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (InvalidRequest("m", code="c"), {}),
        (AuthenticationFailed("m", code="c"), {"WWW-Authenticate": "Bearer"}),
        (UpgradeRequired("m", code="c"), {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}),
        (Overloaded("m", code="c", retry_after_ms=1_001), {"Retry-After": "2"}),
    ],
)
def test_the_headers_that_an_error_brings(error: EvenflowError, headers: dict[str, str]) -> None:
    assert error_headers(error) == headers


def test_refusals_have_their_status_and_code_and_no_endless_text() -> None:
    refusals = [
        path_not_found("/" + "x" * 5000),
        method_not_allowed("M" * 5000, "/" + "x" * 5000),
        body_too_large(),
        internal_error(),
    ]
    assert [(refusal.status, refusal.code) for refusal in refusals] == [
        (404, "path_not_found"),
        (405, "method_not_allowed"),
        (413, "message_too_large"),
        (500, "internal_error"),
    ]
    assert all(len(refusal.message) < 300 for refusal in refusals)


def test_the_methods_that_there_are() -> None:
    assert allow_header(["POST"]) == {"Allow": "POST"}
    assert allow_header(["POST", "GET"]) == {"Allow": "GET, POST"}


def test_a_whole_number() -> None:
    assert whole_number("n", None, 7) == 7
    assert whole_number("n", "0", 7) == 0
    assert whole_number("n", "12", 7) == 12
    assert whole_number("n", "-1", 7, lowest=-1) == -1
    assert whole_number("n", "007", 7) == 7
    assert whole_number("n", "9" * 18, 7) == 10**18 - 1


_WRITTEN_OTHERWISE = [
    "+1",
    "1_0",
    " 7",
    "7 ",
    "7\n",
    "\u0661\u0662",
    "\uff17",
    "\u00b2",
    "--1",
    "-",
]


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1.5", "1,2", "9" * 19, "9" * 5000, *_WRITTEN_OTHERWISE]
)
def test_what_is_no_whole_number_is_refused_and_named(text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        whole_number("from_index", text, 0)
    assert (refusal.value.code, refusal.value.param) == ("invalid_field", "from_index")
    assert len(refusal.value.message) < 200
