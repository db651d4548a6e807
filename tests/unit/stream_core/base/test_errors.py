from __future__ import annotations

import pytest

from evenflow.stream_core.base import errors
from evenflow.stream_core.base.errors import Conflict, EvenflowError, RateLimited

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, EvenflowError)
]

# docs/protocol.md, section 6.
PROTOCOL = {
    "InvalidRequest": (400, "invalid_request_error"),
    "AuthenticationFailed": (401, "authentication_error"),
    "OriginNotAllowed": (403, "permission_error"),
    "HostNotAllowed": (403, "permission_error"),
    "NotPermitted": (403, "permission_error"),
    "NotFound": (404, "not_found_error"),
    "MethodNotAllowed": (405, "invalid_request_error"),
    "RequestTimeout": (408, "invalid_request_error"),
    "Conflict": (409, "conflict_error"),
    "Gone": (410, "not_found_error"),
    "TooLarge": (413, "invalid_request_error"),
    "UnsupportedMediaType": (415, "invalid_request_error"),
    "ModelRefused": (422, "model_refusal_error"),
    "UnsupportedByModel": (400, "invalid_request_error"),
    "UpgradeRequired": (426, "invalid_request_error"),
    "RateLimited": (429, "rate_limit_error"),
    "HeadTooLarge": (431, "invalid_request_error"),
    "UpstreamFailed": (502, "upstream_error"),
    "Overloaded": (503, "overloaded_error"),
    "TooSlow": (503, "overloaded_error"),
    "UpstreamTimeout": (504, "upstream_error"),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_each_kind_has_the_status_and_type_of_the_protocol(kind: type[EvenflowError]) -> None:
    expected = PROTOCOL.get(kind.__name__)
    if expected is None:
        assert kind.status in (500, 502)
    else:
        assert (kind.status, kind.type) == expected


def test_an_error_has_the_one_shape_and_leaves_out_what_it_does_not_know() -> None:
    assert RateLimited("slowly", code="rate_limited").to_body() == {
        "error": {"type": "rate_limit_error", "code": "rate_limited", "message": "slowly"}
    }


def test_an_error_carries_what_it_knows() -> None:
    assert Conflict(
        "x", code="causal_violation", param="p", retry_after_ms=0, expected=None
    ).to_object() == {
        "type": "conflict_error",
        "code": "causal_violation",
        "message": "x",
        "param": "p",
        "retry_after_ms": 0,
        "expected": None,
    }


def test_an_error_says_its_message() -> None:
    assert str(RateLimited("slowly", code="c")) == "slowly"
