"""What operators see of a node, and do to it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.fargate_handler.orchestrator.generations import Generations
from evenflow.fargate_handler.orchestrator.leases import LeaseKeeper, LeaseView
from evenflow.fargate_handler.orchestrator.upstream import Upstreams
from evenflow.stream_core.protocols.operator.bodies import (
    CancelOne,
    ListAnswers,
    ListModels,
    ListNodes,
    ModelState,
    NodeAnswer,
    NodeState,
    OperatorQuestion,
    ResetModel,
    RunningAnswer,
    SetLogLevel,
)
from evenflow.stream_core.stores.response_store import StoreUnavailable

_logger = logging.getLogger(__name__)
_LONGEST_SHOWN_SECONDS = 999.0


class OperatorView:
    """Answers an operator's questions about this node.

    Args:
        monotonic: seconds.
    """

    def __init__(
        self,
        generations: Generations,
        upstreams: Upstreams,
        keeper: LeaseKeeper,
        leases: LeaseView,
        monotonic: Callable[[], float],
    ) -> None:
        self._generations = generations
        self._upstreams = upstreams
        self._keeper = keeper
        self._leases = leases
        self._monotonic = monotonic

    async def answer(self, question: OperatorQuestion) -> NodeAnswer:
        """Answer a question, or do what it says."""
        answer = NodeAnswer(node=self._keeper.owner)
        match question:
            case ListAnswers():
                answer.answers = self._answers()
            case CancelOne(response_id=response_id):
                answer.has_done = self._cancel(response_id)
            case ListModels():
                answer.models = self._models()
            case ResetModel(model=model):
                answer.has_done = self._upstreams.forget_learned(model)
            case ListNodes():
                answer.nodes = await self._nodes()
            case SetLogLevel(level=level):
                logging.getLogger().setLevel(level)
                _logger.warning("an operator has set the log's level to %s", level)
        return answer

    def other_addresses(self) -> list[str]:
        """Where the other nodes are."""
        return self._leases.other_addresses()

    def _answers(self) -> list[RunningAnswer]:
        now = self._monotonic()
        return [
            _running_answer(generation, state, now)
            for state, generations in self._generations.by_state()
            for generation in generations
        ]

    def _cancel(self, response_id: str) -> bool:
        generation = self._generations.of(response_id)
        if generation is None:
            return False
        generation.cancel()
        _logger.warning("an operator has cancelled response %s", response_id)
        return True

    def _models(self) -> list[ModelState]:
        now = self._monotonic()
        return [
            ModelState(
                model=name,
                running=upstream.limiter.running,
                limit=upstream.limiter.limit.share,
                is_failing=upstream.breaker.is_failing,
                paused_for=upstream.limiter.backoff.paused_for(now),
            )
            for name, upstream in self._upstreams.by_name.items()
        ]

    async def _nodes(self) -> list[NodeState]:
        try:
            leases = (await self._leases.all()).values()
        except StoreUnavailable:
            return []
        return [
            NodeState(
                name=lease.owner,
                address=lease.address,
                seconds_left=min(self._leases.seconds_left(lease), _LONGEST_SHOWN_SECONDS),
                is_lost=lease.lost,
            )
            for lease in leases
        ]


def _running_answer(generation: Generation, state: str, now: float) -> RunningAnswer:
    stream = generation.stream
    first_at = stream.first_delta_at
    return RunningAnswer.model_validate(
        {
            "response_id": stream.response_id,
            "tenant": stream.channel.tenant,
            "agent": stream.channel.agent,
            "session": stream.channel.session_digest,
            "model": generation.upstream.name,
            "service_class": generation.line.service_class,
            "state": state,
            "since": now - stream.created_at,
            "first_token": None if first_at is None else first_at - stream.created_at,
            "tokens": stream.tokens,
            "entries": stream.log.next_index,
            "readers": len(stream.readers),
            "attempt": stream.attempt,
        }
    )
