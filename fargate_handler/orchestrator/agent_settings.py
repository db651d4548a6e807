"""What the agent of a session adds to the requests to its model: instructions and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenflow.fargate_handler.orchestrator.incoming_message import (
    WholeRequest,
    brought_turns,
    request_to_model,
)
from evenflow.fargate_handler.token_sources.port import ModelOptions
from evenflow.stream_core.base.agents import NO_TERMS, Agent, Agents, MessageTerms
from evenflow.stream_core.base.channel import CHAT, Channel, MessageKind
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.session.conversation import Turn

_NO_AGENT = Agent()
_NO_OPTIONS = ModelOptions()


class AgentSettings:
    """Adds the agent's instructions and settings to requests, and looks public model names up.

    Args:
        agents: None for a node without agents: the model answers as it is.
        models: names at the model's server by public name. Empty for the source's own name.
    """

    def __init__(
        self, agents: Agents | None = None, models: Mapping[str, str] | None = None
    ) -> None:
        self._agents = agents
        self._models = models or {}

    def model(self, channel: Channel, terms: MessageTerms, kind: MessageKind = CHAT) -> str:
        """The model's name at its server. Empty for the source's own.

        Raises:
            NotFound: the channel's agent no longer exists.
        """
        return self._model_of(self._agent_of(channel, kind), terms)

    def _model_of(self, agent: Agent, terms: MessageTerms) -> str:
        name = terms.model or agent.model or ""
        return self._models.get(name, name)

    def build(
        self,
        channel: Channel,
        turns: Sequence[Turn],
        terms: MessageTerms,
        kind: MessageKind = CHAT,
        whole: WholeRequest | None = None,
    ) -> WholeRequest:
        """Build the request to the model for a message.

        Args:
            turns, whole: as in `request_to_model`.

        Raises:
            NotFound: the channel's agent no longer exists.
        """
        agent = self._agent_of(channel, kind)
        request = request_to_model(kind, brought_turns(terms) or turns, whole)
        turns, options = request.turns, request.options
        if not kind.brings_conversation:
            options = _options(agent, terms)
            if agent.instructions:
                turns = (Turn("system", agent.instructions), *turns)
        return WholeRequest(
            turns,
            options,
            self._model_of(agent, terms),
            terms.user,
            terms.metadata,
            terms.traceparent,
            request.echo,
        )

    def context_tokens(self, channel: Channel, kind: MessageKind = CHAT) -> int | None:
        """The context of the agent's model, in tokens. None if the agent has no setting.

        Raises:
            NotFound: the channel's agent no longer exists.
        """
        return self._agent_of(channel, kind).context_tokens

    def limits(
        self, channel: Channel, terms: MessageTerms, limits: Limits, kind: MessageKind = CHAT
    ) -> Limits:
        """The node's limits with the deadlines of agent and message. The shorter one counts."""
        agent = self._agent_of(channel, kind)
        whole = [agent.deadline_seconds or limits.model_deadline_seconds]
        if terms.timeout_ms is not None:
            whole.append(terms.timeout_ms / 1000)
        deadlines = {"model_deadline_seconds": min(whole)}
        if agent.silence_seconds is not None:
            deadlines |= dict.fromkeys(
                ("model_first_sign_seconds", "model_silence_seconds"), agent.silence_seconds
            )
        if all(getattr(limits, name) == seconds for name, seconds in deadlines.items()):
            return limits  # most answers share them: a copy has sixty fields
        return limits.model_copy(update=deadlines)

    def _agent_of(self, channel: Channel, kind: MessageKind) -> Agent:
        if self._agents is None or kind.brings_conversation:
            return _NO_AGENT
        return self._agents.find(channel.agent)


def _options(agent: Agent, terms: MessageTerms) -> ModelOptions:
    """The message's options, otherwise the agent's. The shorter of two lengths counts."""
    params = terms.params
    is_plain = params is NO_TERMS.params and agent.temperature is None and not terms.tools
    if is_plain and terms.tool_choice is None and terms.parallel_tool_calls is None:
        return _NO_OPTIONS.within(agent.max_tokens)  # most chats have none
    options = ModelOptions(
        max_tokens=params.max_tokens,
        temperature=agent.temperature if params.temperature is None else params.temperature,
        top_p=params.top_p,
        stop=tuple(params.stop or ()),
        seed=params.seed,
        tools=tuple(terms.tools),
        tool_choice=terms.tool_choice,
        parallel_tool_calls=terms.parallel_tool_calls,
    )
    return options.within(agent.max_tokens)
