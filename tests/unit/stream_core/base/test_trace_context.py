from __future__ import annotations

import json

import pytest

from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.trace_context import known_traceparent
from evenflow.stream_core.protocols.evenflow.dialect import Dialect
from evenflow.stream_core.protocols.evenflow.messages import POSTED_MESSAGE, ChatMessage, parse
from evenflow.stream_core.protocols.realtime.dialect import RealtimeDialect

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("said", "known"),
    [
        (TRACEPARENT, TRACEPARENT),
        (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
        # Of the flags only this one is for us, and a later version may say more.
        (f"00-{TRACE}-{SPAN}-03", TRACEPARENT),
        (f"01-{TRACE}-{SPAN}-01-more", TRACEPARENT),
    ],
)
def test_what_names_a_trace_is_written_as_version_00(said: str, known: str) -> None:
    assert known_traceparent(said) == known


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        "a word",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01\n",
        f"ff-{TRACE}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01more",
    ],
)
def test_what_names_none_is_as_if_it_were_not_there(said: str | None) -> None:
    assert known_traceparent(said) == ""


@pytest.mark.parametrize(
    ("said", "known"),
    [
        (TRACEPARENT, TRACEPARENT),
        ("a word", ""),
        (f"01-{TRACE}-{SPAN}-01-{'x' * 300}", ""),
        (None, None),
    ],
)
def test_a_message_may_name_its_trace_over_every_transport(
    said: str | None, known: str | None
) -> None:
    chat = {"message_id": "m", "payload": {"text": "hi"}, "traceparent": said}
    start = {"type": "start", "id": "m", "text": "hi", "traceparent": said}
    posted = parse(POSTED_MESSAGE, json.dumps(chat).encode())
    framed = Dialect().read(json.dumps({"type": "chat.message", **chat}).encode())
    started = RealtimeDialect().read(json.dumps(start).encode())
    for message in (posted, framed, started):
        assert isinstance(message, ChatMessage)
        assert message.traceparent == known


def test_the_trace_is_kept_with_the_message() -> None:
    terms = MessageTerms(user="zoe").within(TRACEPARENT)
    assert MessageTerms.from_text(terms.to_text()) == terms
    assert MessageTerms(user="zoe").within("") == MessageTerms(user="zoe")
