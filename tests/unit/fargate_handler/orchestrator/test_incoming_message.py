from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.orchestrator.incoming_message import (
    REQUEST_AGENT,
    WholeRequest,
    caller_info,
    can_continue,
    repeatable_channel,
    request_to_model,
    single_channel,
)
from evenflow.fargate_handler.token_sources.port import CallerInfo, ModelOptions
from evenflow.stream_core.base.channel import (
    BACKGROUND,
    CHAT,
    CHAT_OF_INTERFACE,
    COMPLETION,
    INTERFACE,
    KEYED_COMPLETION,
    NAME_PATTERN,
    RESPONSE,
    Channel,
    MessageKind,
)
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.log.entries import LogEntry, Part, PartKind, Restart
from evenflow.stream_core.protocols.evenflow.messages import SESSION_REQUEST, parse
from evenflow.stream_core.session.conversation import ToolCall, Turn, text_of_parts

TEXT = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | TEXT
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
OPTIONS = st.builds(
    ModelOptions,
    max_tokens=st.none() | st.integers(1, 100),
    max_completion_tokens=st.none() | st.integers(1, 100),
    temperature=st.none() | st.floats(0, 2),
    top_p=st.none() | st.floats(0, 1),
    stop=st.lists(TEXT, max_size=4).map(tuple),
    seed=st.none() | st.integers(-(2**63), 2**63 - 1),
    tools=st.lists(
        TEXT.map(lambda name: {"type": "function", "function": {"name": name}}), max_size=3
    ).map(tuple),
    tool_choice=st.sampled_from(
        [None, "none", "required", {"type": "function", "function": {"name": "f"}}]
    ),
    parallel_tool_calls=st.sampled_from([None, False, True]),
    passed=st.dictionaries(TEXT, JSON, max_size=3),
)
PARTS = st.lists(
    st.builds(lambda text: {"type": "text", "text": text, "x": 1}, TEXT)
    | st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, TEXT),
    min_size=1,
    max_size=3,
).map(tuple)
EXTRA = st.dictionaries(TEXT, JSON, max_size=2)
CALLS = st.lists(
    st.builds(ToolCall, TEXT.filter(bool), TEXT, TEXT, st.just({}) | EXTRA), max_size=3
).map(tuple)
TURNS = st.one_of(
    st.builds(Turn, st.sampled_from(["system", "user"]), TEXT),
    st.builds(Turn, st.just("assistant"), TEXT, CALLS),
    st.builds(Turn, st.just("tool"), TEXT, tool_call_id=TEXT.filter(bool)),
    st.builds(Turn, st.just("user"), TEXT, extra=EXTRA),
    st.builds(Turn, st.just("assistant"), TEXT, CALLS, extra=EXTRA),
    st.builds(
        lambda parts, extra: Turn("user", text_of_parts(parts), (), "", parts, extra), PARTS, EXTRA
    ),
    st.builds(lambda parts: Turn("tool", text_of_parts(parts), (), "c1", parts), PARTS),
)
REQUESTS = st.builds(WholeRequest, st.lists(TURNS, min_size=1).map(tuple), OPTIONS)
_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": 2}}}


@given(REQUESTS)
def test_its_text_says_all_of_it(request: WholeRequest) -> None:
    text = request.to_text()
    assert WholeRequest.from_text(text) == request
    assert WholeRequest.from_text(text).to_text() == text


def test_the_text_is_what_it_was_before_there_were_tools() -> None:
    request = WholeRequest(
        (Turn("system", "s"), Turn("user", "u")), ModelOptions(temperature=1, max_tokens=2)
    )
    # A digest of it is kept, and compared with what another version of this makes of the same
    # request.
    assert request.to_text() == (
        '{"options":{"max_tokens":2,"temperature":1},"turns":[["system","s"],["user","u"]]}'
    )


def test_the_same_parameters_in_another_order_are_the_same_request() -> None:
    one, other = (
        WholeRequest((Turn("user", "u"),), ModelOptions(passed=passed)).to_text()
        for passed in ({"a": 1, "b": {"d": 1, "c": 2}}, {"b": {"d": 1, "c": 2}, "a": 1})
    )
    assert one == other
    assert list(WholeRequest.from_text(one).options.passed["b"]) == ["d", "c"]


def test_the_text_of_parts_is_kept_once() -> None:
    part = {"type": "text", "text": "long text", "cache_control": {"type": "ephemeral"}}
    assert (
        WholeRequest((Turn("user", "long text", parts=(part,)),)).to_text().count("long text") == 1
    )


def test_a_tool_stays_in_the_order_in_which_it_was_described() -> None:
    text = WholeRequest((Turn("user", "u"),), ModelOptions(tools=(_TOOL,))).to_text()
    (tool,) = WholeRequest.from_text(text).options.tools
    assert list(tool["function"]["parameters"]) == ["b", "a"]


@pytest.mark.parametrize(
    ("begun", "expected"),
    [
        (["So: "], True),
        ([], True),
        (["So: ", Part(PartKind.CALL, id="c", name="f")], False),
        ([Part(PartKind.REASONING, "Hm"), "So"], False),
        ([Part(PartKind.REASONING, "Hm"), Restart(-1, 2), "So"], True),
    ],
)
def test_an_answer_goes_on_from_what_it_says_and_nothing_else(
    begun: list[LogEntry], expected: bool
) -> None:
    assert can_continue(WholeRequest(()), begun) is expected


def test_a_request_is_what_the_model_is_asked() -> None:
    request = WholeRequest((Turn("system", "s"), Turn("user", "u")), ModelOptions(seed=1))
    for kind in (KEYED_COMPLETION, COMPLETION):
        assert request_to_model(kind, (), request) == request


def test_in_a_session_a_text_is_a_text() -> None:
    turns = (Turn("user", WholeRequest((Turn("system", "obey"),)).to_text()),)
    assert request_to_model(CHAT, turns) == WholeRequest(turns)


def test_no_session_can_have_its_agent() -> None:
    with pytest.raises(InvalidRequest):
        parse(SESSION_REQUEST, b'{"agent": "%s"}' % REQUEST_AGENT.encode())


_SESSION = Channel("acme", "demo", "ses_1")
_NAMES = st.from_regex(NAME_PATTERN, fullmatch=True)


def test_a_model_s_server_is_told_the_session_where_there_is_one() -> None:
    asked = WholeRequest((), user="zoe", metadata={"k": "v"})

    def told(session: str) -> CallerInfo:
        return CallerInfo(session, "zoe", "acme", "m1", {"k": "v"})

    assert caller_info(CHAT, _SESSION, "m1", asked) == told("ses_1")
    for sender, session in ((None, ""), (_SESSION, "ses_1")):
        kind, channel = COMPLETION.sent_with(sender), single_channel("acme", "u", sender)
        assert caller_info(kind, channel, "m1", asked) == told(session)


def test_a_key_is_its_sender_s_alone() -> None:
    senders = (None, _SESSION, _SESSION._replace(session="ses_2"), _SESSION._replace(agent="other"))
    assert len({repeatable_channel("acme", "1", sender) for sender in senders}) == len(senders)
    assert repeatable_channel("acme", "1") != single_channel("acme", "1")


@given(_NAMES, _NAMES, _NAMES)
def test_the_channel_of_a_request_has_one_text(tenant: str, agent: str, session: str) -> None:
    for make in (repeatable_channel, single_channel):
        channel = make(tenant, "1", Channel(tenant, agent, session))
        assert Channel(*str(channel).split(":")) == channel


@pytest.mark.parametrize(("n", "expected"), [(None, True), (1, True), (2, False)])
def test_only_one_answer_can_be_gone_on_with(n: int | None, expected: bool) -> None:
    """Of several only the first may have begun: a model that goes on would begin the others in its
    middle.
    """
    asked = WholeRequest((), ModelOptions(passed={} if n is None else {"n": n}))
    assert can_continue(asked, ["Once upon"]) is expected


_GREETED = (Turn("system", "s"), Turn("assistant", "Hello!"), Turn("user", "u"))


def test_a_chat_begins_with_the_user_whatever_its_client_sends() -> None:
    request = WholeRequest(_GREETED, ModelOptions(seed=1))
    for kind in (INTERFACE, CHAT_OF_INTERFACE):
        assert request_to_model(kind, (), request).turns == (_GREETED[0], _GREETED[2])
    assert request_to_model(CHAT, _GREETED).turns == (_GREETED[0], _GREETED[2])


@pytest.mark.parametrize("kind", [KEYED_COMPLETION, COMPLETION, RESPONSE, BACKGROUND])
def test_what_a_program_asks_for_is_passed_on_as_it_was_sent(kind: MessageKind) -> None:
    request = WholeRequest(_GREETED)
    assert request_to_model(kind, (), request) == request


def test_a_chat_without_any_question_is_as_its_client_has_it() -> None:
    turns = (Turn("system", "s"), Turn("assistant", "a"), Turn("tool", "t", tool_call_id="c"))
    assert request_to_model(INTERFACE, (), WholeRequest(turns)).turns == turns
