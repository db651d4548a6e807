from __future__ import annotations

import orjson
import pytest

from evenflow.fargate_handler.gateway.anthropic.request import MessagesCall, read_call
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.anthropic.encoder import error_object


def _read(**given: object) -> MessagesCall:
    messages = [{"role": "user", "content": "hello"}]
    return read_call(orjson.dumps({"model": "m", "max_tokens": 9, "messages": messages, **given}))


def test_a_thread_is_refused_so_that_the_sdks_go_on_without() -> None:
    with pytest.raises(InvalidRequest) as refused:
        _read(thread={"type": "create"})
    told = error_object(refused.value, "req_1")["error"]
    assert (refused.value.status, told["type"]) == (400, "invalid_request_error")
    assert told["details"] == {
        "error_code": "thread_unsupported_request",
        "unsupported": ["thread"],
    }


def test_a_parameter_that_is_null_is_none() -> None:
    assert _read(thread=None, container=None) == _read()


def test_any_other_parameter_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest) as refused:
        _read(container="c")
    assert (refused.value.param, refused.value.extra) == ("container", {})
