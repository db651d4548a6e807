"""Requests of chat interfaces: with the agent's settings, each behind the chat's last message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from evenflow.fargate_handler.gateway.bodies.chat_messages import tool_options
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.senders import Sender, counted_caller, reading_line
from evenflow.fargate_handler.gateway.requests.known_models import check_model
from evenflow.fargate_handler.gateway.requests.submission import (
    check_may_repeat,
)
from evenflow.fargate_handler.orchestrator.incoming_message import (
    IncomingMessage,
    ReceivedRequest,
    WholeRequest,
)
from evenflow.fargate_handler.orchestrator.orchestrator import Submission
from evenflow.fargate_handler.token_sources.port import ModelOptions
from evenflow.stream_core.base.agents import Agent, MessageTerms
from evenflow.stream_core.base.channel import INTERFACE, Channel, MessageKind
from evenflow.stream_core.base.errors import Conflict, InvalidRequest, Overloaded
from evenflow.stream_core.protocols.openai_chat.parameters import AnswerParameters
from evenflow.stream_core.session.conversation import Turn

# Attempts while other requests of the same chat are accepted first.
_TRIES = 4


async def submit_as_next(
    context: GatewayContext,
    sender: Sender,
    channel: Channel,
    message_id: str,
    agent_request: AgentRequest,
    size: int,
    kind: MessageKind = INTERFACE,
) -> Submission:
    """Submit a request after the last message of its channel, whichever node accepted that.

    It is accepted even if its client disconnects now. The same `message_id` always gives the same
    response.

    Args:
        size: the memory that the request takes, in bytes.

    Raises:
        NotPermitted: the response is that of an earlier request, and the sender may not read.
        EvenflowError: as for `Orchestrator.submit`, but for `Conflict`.
    """
    line = reading_line(context, sender)
    request = await context.work.run(line, size, ReceivedRequest.of, agent_request.whole)
    message = IncomingMessage.of_request(
        channel,
        message_id,
        request,
        kind=kind.sent_with(sender.session),
        terms=agent_request.terms.within(sender.traceparent),
        caller=counted_caller(context, sender),
    )
    submission = await asyncio.shield(context.background.run(_submit(context, message)))
    check_may_repeat(sender, submission)
    return submission


async def _submit(context: GatewayContext, message: IncomingMessage) -> Submission:
    last = context.orchestrator.last_message_id(message.channel)
    for _ in range(_TRIES):
        try:
            return await context.orchestrator.submit(replace(message, previous_message_id=last))
        except Conflict as behind:
            last = behind.extra["expected"]
    raise Overloaded(
        "other requests of this chat are accepted at the same time; this one was not, send it "
        "again",
        code="session_contended",
        retry_after_ms=500,
    )


class AgentRequest(NamedTuple):
    """A request to the model, and the terms of its answer."""

    whole: WholeRequest
    terms: MessageTerms


def agent_request_of(
    context: GatewayContext, sender: Sender, turns: Sequence[Turn], parameters: AnswerParameters
) -> AgentRequest:
    """The request to the model for a conversation.

    The agent is the session's, otherwise the tenant's default one.

    Raises:
        NotFound: there is no such model, or the agent no longer exists.
        InvalidRequest: there is nothing to answer, or a tool is wrong.
    """
    if not turns:
        raise InvalidRequest(
            "messages has nothing to answer; nothing was generated, send at least one message "
            "with content",
            code="invalid_field",
            param="messages",
        )
    if parameters.model is not None:
        check_model(parameters.model, context, sender.tenant)
    agents, session = context.agents, sender.session
    agent = agents.find(
        session.agent
        if session is not None
        else agents.chosen(None, context.tenants.of(sender.tenant).agents)
    )
    instructions = (Turn("system", agent.instructions),) if agent.instructions else ()
    terms = MessageTerms(
        timeout_ms=None if agent.deadline_seconds is None else int(agent.deadline_seconds * 1000),
        metadata=parameters.metadata or {},
        user=parameters.user or "",
        model=parameters.model or agent.model or "",
    )
    whole = WholeRequest((*instructions, *turns), _options(agent, parameters))
    return AgentRequest(whole, sender.named_in(terms))


def _options(agent: Agent, parameters: AnswerParameters) -> ModelOptions:
    """The request's options, otherwise the agent's. The shorter of two lengths counts."""
    effort = parameters.reasoning_effort
    return ModelOptions(
        max_tokens=parameters.max_tokens,
        temperature=agent.temperature if parameters.temperature is None else parameters.temperature,
        top_p=parameters.top_p,
        stop=tuple(parameters.stop or ()),
        seed=parameters.seed,
        passed={} if effort is None else {"reasoning_effort": effort},
        **tool_options(parameters),
    ).within(agent.max_tokens)
