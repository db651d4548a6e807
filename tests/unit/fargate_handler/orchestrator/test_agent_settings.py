from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.agent_settings import AgentSettings
from evenflow.fargate_handler.orchestrator.incoming_message import (
    IncomingMessage,
    WholeRequest,
    single_channel,
)
from evenflow.fargate_handler.token_sources.port import CallerInfo, ModelOptions
from evenflow.stream_core.base.agents import NO_TERMS, Agent, Agents, MessageParams, MessageTerms
from evenflow.stream_core.base.channel import COMPLETION, Channel
from evenflow.stream_core.base.errors import NotFound
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, two_tasks
from tests.unit.settle import settle

TURNS = (Turn("user", "hi"),)
AGENT = Agent(
    model="fast",
    instructions="Be brief.",
    temperature=0.5,
    max_tokens=100,
    silence_seconds=5,
    deadline_seconds=40,
)
REQUESTS = AgentSettings(Agents({"a": AGENT}), {"fast": "org/small", "own": ""})
SESSION = Channel("t", "a", "s")


def test_the_agent_says_what_the_message_does_not() -> None:
    asked = REQUESTS.build(SESSION, TURNS, MessageTerms())
    assert asked.turns == (Turn("system", "Be brief."), *TURNS)
    assert asked.options == ModelOptions(max_tokens=100, temperature=0.5)
    assert asked.model == "org/small"


def test_the_message_comes_before_the_agent_but_for_the_longest_answer() -> None:
    params = MessageParams(temperature=0, max_tokens=500, stop=["x"], seed=3)
    asked = REQUESTS.build(SESSION, TURNS, MessageTerms(params=params))
    assert asked.options == ModelOptions(max_tokens=100, temperature=0, stop=("x",), seed=3)
    shorter = REQUESTS.build(SESSION, TURNS, MessageTerms(params=MessageParams(max_tokens=7)))
    assert shorter.options.max_tokens == 7


def test_a_request_of_openai_s_api_is_asked_as_it_came_by_the_model_that_it_names() -> None:
    request = WholeRequest(TURNS, ModelOptions(temperature=1))
    asked = REQUESTS.build(
        single_channel("t", "u"), (), MessageTerms(model="fast"), COMPLETION, request
    )
    assert (asked.turns, asked.options, asked.model) == (
        TURNS,
        ModelOptions(temperature=1),
        "org/small",
    )
    own = REQUESTS.build(
        single_channel("t", "u"), (), MessageTerms(model="own"), COMPLETION, request
    )
    assert own.model == ""


def test_the_shorter_deadline_is_in_force() -> None:
    limits = REQUESTS.limits(SESSION, MessageTerms(), Limits())
    assert (
        limits.model_first_sign_seconds,
        limits.model_silence_seconds,
        limits.model_deadline_seconds,
    ) == (5, 5, 40)
    assert (
        REQUESTS.limits(SESSION, MessageTerms(timeout_ms=1_500), Limits()).model_deadline_seconds
        == 1.5
    )
    assert (
        REQUESTS.limits(SESSION, MessageTerms(timeout_ms=90_000), Limits()).model_deadline_seconds
        == 40
    )
    own = Limits()
    assert AgentSettings().limits(SESSION, MessageTerms(), own) is own


def test_an_agent_that_is_gone_answers_nothing() -> None:
    with pytest.raises(NotFound):
        REQUESTS.model(Channel("t", "b", "s"), NO_TERMS)


# -- another task goes on --------------------------------------------------------------------------

_TERMS = MessageTerms(
    params=MessageParams(seed=7), timeout_ms=60_000, metadata={"k": "v"}, user="zoe"
)


async def test_a_task_that_takes_over_asks_the_same_for_the_same_user() -> None:
    first, second = await two_tasks()
    await first.orchestrator.submit(IncomingMessage(CHANNEL, "m1", None, "hi", terms=_TERMS))
    await settle()
    asked = first.source.calls[0].request
    assert asked.options == ModelOptions(seed=7)
    assert asked.caller == CallerInfo(CHANNEL.session, "zoe", CHANNEL.tenant, "m1", {"k": "v"})
    await first.hand_over()
    await first.leave()
    stream = await second.find(asked.key.partition(":")[0])
    await settle()
    again = second.source.calls[0].request
    assert (again.options, again.caller) == (asked.options, asked.caller)
    await second.answer("done")
    assert stream.state is ResponseState.COMPLETED
