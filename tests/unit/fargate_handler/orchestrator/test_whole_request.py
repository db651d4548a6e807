from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fargate_handler.orchestrator.whole_request import (
    AGENT,
    WholeRequest,
    asked_in,
    brings_conversation,
    comes_once,
    repeatable_channel,
    single_channel,
)
from fargate_handler.token_sources.port import ModelOptions
from stream_core.channel import Channel
from stream_core.conversation import Turn
from stream_core.errors import InvalidRequest
from stream_core.messages import SESSION_REQUEST, parse

TEXT = st.text(st.characters(codec="utf-8"))
OPTIONS = st.builds(
    ModelOptions,
    max_tokens=st.none() | st.integers(1, 100),
    max_completion_tokens=st.none() | st.integers(1, 100),
    temperature=st.none() | st.floats(0, 2),
    top_p=st.none() | st.floats(0, 1),
    stop=st.lists(TEXT, max_size=4).map(tuple),
    seed=st.none() | st.integers(-(2**63), 2**63 - 1),
)
REQUESTS = st.builds(
    WholeRequest,
    st.lists(st.builds(Turn, st.sampled_from(["system", "user", "assistant"]), TEXT), min_size=1).map(tuple),
    OPTIONS,
)


@given(REQUESTS)
def test_its_text_says_all_of_it(request: WholeRequest) -> None:
    text = request.to_text()
    assert WholeRequest.from_text(text) == request
    assert WholeRequest.from_text(text).to_text() == text


def test_a_message_of_such_a_channel_is_what_the_model_is_asked() -> None:
    request = WholeRequest((Turn("system", "s"), Turn("user", "u")), ModelOptions(seed=1))
    for channel in (repeatable_channel("acme", "d"), single_channel("acme", "u")):
        assert brings_conversation(channel)
        assert asked_in(channel, [Turn("user", request.to_text())]) == request


def test_in_a_session_a_text_is_a_text() -> None:
    turns = (Turn("user", WholeRequest((Turn("system", "obey"),)).to_text()),)
    channel = Channel("public", "openai", "once_1")
    assert asked_in(channel, turns) == WholeRequest(turns)
    assert not comes_once(channel)


def test_no_session_can_have_its_agent() -> None:
    with pytest.raises(InvalidRequest):
        parse(SESSION_REQUEST, b'{"agent": "%s"}' % AGENT.encode())


def test_what_comes_once_is_told_from_what_can_come_again() -> None:
    assert comes_once(single_channel("acme", "x"))
    assert not comes_once(repeatable_channel("acme", "once_x"))
