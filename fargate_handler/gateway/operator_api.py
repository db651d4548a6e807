"""`POST /operator`: what `evenflow answers`, `models`, `nodes` and `log-level` ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from evenflow.fargate_handler.gateway.http.answers import json_answer
from evenflow.fargate_handler.orchestrator.operator_view import OperatorView
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.protocols.evenflow.messages import parse
from evenflow.stream_core.protocols.evenflow.peer_log import PeerUnreachable
from evenflow.stream_core.protocols.evenflow.session_init import bearer
from evenflow.stream_core.protocols.operator.bodies import (
    AUDIENCE,
    OPERATOR_QUESTION,
    NodeAnswer,
    OperatorAnswer,
    OperatorQuestion,
)

_MOST_BYTES = 4_096


class OtherNodes(Protocol):
    """The other nodes, as an operator's question reaches them."""

    async def ask(self, address: str, question: OperatorQuestion) -> NodeAnswer:
        """Ask the node at an address.

        Raises:
            PeerUnreachable: it does not answer.
        """


class OperatorApi:
    """Answers an operator's questions for all nodes.

    It needs a token that is signed with the nodes' own keys. They open every session anyway. On one
    machine the owner of the store's file can read them, in AWS the role of the task.

    Args:
        wall_time: seconds since the epoch.
    """

    def __init__(
        self,
        view: OperatorView,
        tokens: SessionTokens,
        other_nodes: OtherNodes,
        wall_time: Callable[[], float],
    ) -> None:
        self._view = view
        self._tokens = tokens
        self._other_nodes = other_nodes
        self._wall_time = wall_time

    async def post(self, request: web.Request) -> web.Response:
        """Answer a question.

        Raises:
            AuthenticationFailed: the token is not an operator's.
            InvalidRequest: there is no such question.
        """
        credential = bearer(request.headers.get("Authorization"))
        self._tokens.verify(credential, self._wall_time(), only_for=AUDIENCE)
        question = parse(OPERATOR_QUESTION, await request.content.read(_MOST_BYTES))
        own_answer = await self._view.answer(question)
        answer = OperatorAnswer(nodes=[own_answer])
        if not question.here:
            await self._ask_others(question.model_copy(update={"here": True}), answer)
        return json_answer(answer.model_dump(mode="json"))

    async def _ask_others(self, question: OperatorQuestion, answer: OperatorAnswer) -> None:
        addresses = self._view.other_addresses()
        results = await asyncio.gather(
            *(self._other_nodes.ask(address, question) for address in addresses),
            return_exceptions=True,
        )
        for address, result in zip(addresses, results, strict=True):
            if isinstance(result, NodeAnswer):
                answer.nodes.append(result)
            elif isinstance(result, PeerUnreachable):
                answer.unreachable.append(address)
            else:
                raise result
