from __future__ import annotations

from dataclasses import replace

import pytest

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.senders import Sender
from evenflow.fargate_handler.gateway.requests.agent_request import AgentRequest, agent_request_of
from evenflow.stream_core.base.agents import Agent, Agents
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import InvalidRequest, NotFound
from evenflow.stream_core.protocols.openai_chat.bodies import OfferedFunction, OfferedTool
from evenflow.stream_core.protocols.openai_chat.parameters import AnswerParameters
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.gateway.client_harness import Gateway

_TURNS = (Turn("user", "a"),)
_AGENTS = {
    "default": Agent(instructions="Be brief.", temperature=0.5, max_tokens=100),
    "poet": Agent(instructions="Rhyme.", model="verse", deadline_seconds=2.5),
}
_TENANT = Sender("acme", "192.0.2.1")


@pytest.fixture
async def context() -> GatewayContext:
    return replace(Gateway().context, agents=Agents(_AGENTS))


def _asked(context: GatewayContext, sender: Sender = _TENANT, **said: object) -> AgentRequest:
    return agent_request_of(context, sender, _TURNS, AnswerParameters.model_validate(said))


def test_the_default_agent_answers_a_tenant(context: GatewayContext) -> None:
    whole, terms = _asked(context)
    assert whole.turns == (Turn("system", "Be brief."), *_TURNS)
    assert (whole.options.temperature, whole.options.max_tokens) == (0.5, 100)
    assert (terms.model, terms.timeout_ms) == ("", None)


def test_a_session_s_agent_answers_it_for_its_user(context: GatewayContext) -> None:
    session = Channel("acme", "poet", "s1")
    whole, terms = _asked(context, Sender("acme", "", session, "ann"), user="somebody else")
    assert whole.turns[0] == Turn("system", "Rhyme.")
    assert (terms.model, terms.timeout_ms, terms.user) == ("verse", 2500, "ann")


def test_a_request_s_parameters_come_first_and_the_shorter_length_counts(
    context: GatewayContext,
) -> None:
    asked = _asked(context, temperature=0.1, max_tokens=7, reasoning_effort="low", stop=["."])
    options = asked.whole.options
    assert (options.temperature, options.max_tokens, options.stop) == (0.1, 7, (".",))
    assert options.passed == {"reasoning_effort": "low"}
    assert _asked(context, max_tokens=1_000).whole.options.max_tokens == 100


def test_tools_are_offered(context: GatewayContext) -> None:
    tool = OfferedTool(type="function", function=OfferedFunction(name="add"))
    options = _asked(context, tools=[tool], tool_choice="required").whole.options
    assert options.tools == ({"type": "function", "function": {"name": "add"}},)
    assert options.tool_choice == "required"


def test_an_unknown_model_is_refused(context: GatewayContext) -> None:
    assert _asked(context, model="demo").terms.model == "demo"
    with pytest.raises(NotFound) as refused:
        _asked(context, model="unknown")
    assert refused.value.code == "model_not_found"


def test_a_conversation_without_anything_in_it_is_refused(context: GatewayContext) -> None:
    with pytest.raises(InvalidRequest, match="nothing to answer") as refused:
        agent_request_of(context, _TENANT, (), AnswerParameters())
    assert refused.value.param == "messages"
