from __future__ import annotations

import json

import pytest

from evenflow.stream_core.base.agents import MessageParams, MessageTerms, metadata_header
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.evenflow.messages import POSTED_MESSAGE, MessagePayload, parse
from evenflow.stream_core.protocols.realtime.dialect import RealtimeDialect

SAID = {
    "params": {"temperature": 0, "top_p": 1, "max_tokens": 5, "stop": ["\n"], "seed": -1},
    "timeout_ms": 2_000,
    "metadata": {"ticket": "T-7"},
    "slo_ttft_ms": 800,
    "service_class": "batch",
}


def payload(**fields: object) -> MessagePayload:
    body = {"message_id": "m", "payload": {"text": "hi", **fields}}
    return parse(POSTED_MESSAGE, json.dumps(body).encode()).payload


def test_what_a_message_says_is_kept_as_text_and_read_again() -> None:
    terms = payload(**SAID).terms("zoe")
    assert terms.params == MessageParams(temperature=0, top_p=1, max_tokens=5, stop=["\n"], seed=-1)
    assert (terms.timeout_ms, terms.metadata, terms.user) == (2_000, {"ticket": "T-7"}, "zoe")
    assert (terms.slo_ttft_ms, terms.service_class) == (800, "batch")
    assert MessageTerms.from_text(terms.to_text()) == terms


def test_a_message_that_says_nothing_has_no_text_of_its_own() -> None:
    assert payload().terms("").to_text() == ""
    assert payload(params={}).terms("").to_text() == ""
    assert MessageTerms.from_text("") == MessageTerms()


def test_what_a_newer_version_wrote_is_left_out() -> None:
    assert MessageTerms.from_text(
        '{"params": {"seed": 1, "new": 2}, "other": 3}'
    ).params == MessageParams(seed=1)


BROUGHT = {
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "parallel_tool_calls": False,
}


@pytest.mark.parametrize(
    "said",
    [{"text": "hi", **SAID, **BROUGHT}, {"messages": [{"role": "user", "content": "hi"}], **SAID}],
)
def test_the_realtime_dialect_says_the_same(said: dict[str, object]) -> None:
    frame = RealtimeDialect().read(json.dumps({"type": "start", "id": "m", **said}).encode())
    posted = json.dumps({"message_id": "m", "payload": said}).encode()
    assert getattr(frame, "payload", None) == parse(POSTED_MESSAGE, posted).payload


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"params": {"temperature": 2.1}}, "payload.params.temperature"),
        ({"params": {"top_p": -0.1}}, "payload.params.top_p"),
        ({"params": {"max_tokens": 0}}, "payload.params.max_tokens"),
        ({"params": {"stop": ["a"] * 5}}, "payload.params.stop"),
        ({"params": {"seed": 2**63}}, "payload.params.seed"),
        ({"params": {"temprature": 1}}, "payload.params.temprature"),
        ({"timeout_ms": 0}, "payload.timeout_ms"),
        ({"metadata": {str(number): "" for number in range(17)}}, "payload.metadata"),
        ({"metadata": {"a": "x" * 513}}, "payload.metadata.a"),
        ({"metadata": {"a": 1}}, "payload.metadata.a"),
        ({"metadata": {str(number): "ä" * 500 for number in range(3)}}, "payload.metadata"),
    ],
)
def test_what_is_out_of_its_range_is_named(fields: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        payload(**fields)
    assert (refused.value.code, refused.value.param) == ("invalid_field", param)


def test_metadata_is_one_line_of_ascii() -> None:
    text = metadata_header({"a\r\nX-Evil: 1": "é\x7f\x00\n"})
    assert all(" " <= character < "\x7f" for character in text)
    assert json.loads(text) == {"a\r\nX-Evil: 1": "é\x7f\x00\n"}
