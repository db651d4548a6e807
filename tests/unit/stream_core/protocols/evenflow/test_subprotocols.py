from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from orjson import dumps

from evenflow.stream_core.log.entries import Part
from evenflow.stream_core.protocols.evenflow.dialect import COMPACT, REALTIME, V1
from evenflow.stream_core.protocols.evenflow.entry_encoders import (
    CompactEncoder,
    TokenEncoder,
    V1Encoder,
)
from evenflow.stream_core.protocols.evenflow.messages import (
    CompactPart,
    ResponseDelta,
    ResponsePart,
)
from evenflow.stream_core.protocols.evenflow.part_objects import part_object
from evenflow.stream_core.protocols.realtime.dialect import Event, Token
from tests.unit.stream_core.log.contents import CONTENT

ANY_TEXT = st.text()
INDEXES = st.tuples(st.integers(0, 10**6), st.integers(0, 100)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)
AWKWARD = (
    'quote " back\\slash \n\r\t \x00 \x1f \x7f \u2028\u2029 emoji 👩‍👩‍👧 流れ %b %d {} é e\u0301'
)


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, INDEXES)
@example(AWKWARD, AWKWARD, AWKWARD, (0, 0))
@example(AWKWARD, "ses_1", "rsp_1", (3, 9))
def test_a_fast_written_delta_is_the_json_of_its_model(
    text: str, session_id: str, response_id: str, indexes: tuple[int, int]
) -> None:
    first, last = indexes
    frame = V1Encoder(session_id, response_id).delta(text, first, last)
    fields = {
        "type": "chat.response.delta",
        "session_id": session_id,
        "response_id": response_id,
        "delta": text,
        "index": last,
    }
    if first != last:
        fields["from"] = first
    assert json.loads(frame) == fields
    assert frame.decode(), "it is UTF-8"
    assert json.loads(frame) == json.loads(ResponseDelta.model_validate(fields).to_json())


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, st.integers(0, 10**6))
@example(AWKWARD, AWKWARD, AWKWARD, 0)
def test_a_filled_in_template_is_the_frame(
    text: str, session_id: str, response_id: str, index: int
) -> None:
    encoder = V1Encoder(session_id, response_id)
    assert encoder.template % (dumps(text), index) == encoder.delta(text, index, index)


@given(ANY_TEXT, st.integers(0, 10**6), INDEXES)
@example(AWKWARD, 0, (0, 0))
@example(AWKWARD, 7, (3, 9))
def test_a_compact_delta_says_the_same(text: str, stream: int, indexes: tuple[int, int]) -> None:
    first, last = indexes
    written = json.loads(CompactEncoder(stream).delta(text, first, last))
    assert written == ([stream, last, text] if first == last else [stream, last, text, first])


@given(ANY_TEXT, ANY_TEXT, INDEXES)
@example(AWKWARD, AWKWARD, (0, 0))
@example(AWKWARD, "rsp_1", (3, 9))
def test_a_token_is_the_json_of_its_model(
    text: str, response_id: str, indexes: tuple[int, int]
) -> None:
    first, last = indexes
    frame = TokenEncoder(response_id).delta(text, first, last)
    fields = {"type": "token", "response_id": response_id, "index": last, "text": text}
    if first != last:
        fields["from"] = first
    assert list(json.loads(frame).items()) == list(fields.items())
    assert json.loads(frame) == json.loads(Token.model_validate(fields).to_json())


@given(CONTENT.filter(lambda content: isinstance(content, Part)), INDEXES)
def test_a_part_is_the_json_of_its_model_in_every_dialect(
    part: Part, indexes: tuple[int, int]
) -> None:
    first, last = indexes
    joined = {"from": first} if first != last else {}
    said = part_object(part)
    frame = json.loads(V1Encoder("ses_1", "rsp_1").event(part, first, last))
    assert frame == {
        "type": "chat.response.event",
        "session_id": "ses_1",
        "response_id": "rsp_1",
        "index": last,
        **joined,
        **said,
    }
    assert ResponsePart.model_validate(frame).to_part() == part
    frame = json.loads(TokenEncoder("rsp_1").event(part, first, last))
    assert frame == {"type": "event", "response_id": "rsp_1", "index": last, **joined, **said}
    assert Event.model_validate(frame).to_part() == part
    short = json.loads(CompactEncoder(7).event(part, first, last))
    assert short == [7, last, said, *joined.values()]
    assert CompactPart.model_validate(short).root[2].to_part() == part


@given(ANY_TEXT)
def test_a_frame_is_one_line(text: str) -> None:
    """So that it can be the data of a server-sent event."""
    frame = V1Encoder("ses_1", "rsp_1").delta(text, 0, 0)
    assert b"\n" not in frame
    assert b"\r" not in frame


def test_a_delta_is_exactly_as_the_contract_writes_it() -> None:
    encoder = V1Encoder("ses_1", "rsp_1")
    assert encoder.delta("Hi", 0, 0) == (
        b'{"type":"chat.response.delta","session_id":"ses_1","response_id":"rsp_1",'
        b'"delta":"Hi","index":0}'
    )
    assert encoder.delta("Hi", 2, 5).endswith(b'"delta":"Hi","index":5,"from":2}')


def test_the_subprotocols_have_their_names() -> None:
    assert (V1, COMPACT, REALTIME) == ("evenflow.v1", "evenflow.v1.compact", "evenflow.realtime.v1")


@pytest.mark.parametrize("first", [0, 1])
def test_joined_from_zero_is_told(first: int) -> None:
    assert json.loads(V1Encoder("s", "r").delta("x", first, 2))["from"] == first
