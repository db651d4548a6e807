"""A model on a SageMaker endpoint, in a container that accepts OpenAI's chat requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson

from evenflow.fargate_handler.token_sources.answer_body import AnswerBody
from evenflow.fargate_handler.token_sources.aws_client import (
    AwsClient,
    Event,
    hanging_up,
    unreadable_event,
)
from evenflow.fargate_handler.token_sources.conversation_forms import (
    alternating_turns,
    openai_message,
    streamed_parameters,
    system_texts,
)
from evenflow.fargate_handler.token_sources.model_connection import while_paused
from evenflow.fargate_handler.token_sources.openai_answer import OpenAIAnswer
from evenflow.fargate_handler.token_sources.openai_failures import Failures
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.session.conversation import Turn

_CHECK = (
    "EVENFLOW_MODEL_NAME (an endpoint of this region, in service), AWS_REGION, the credentials "
    "and their permission sagemaker:InvokeEndpoint"
)
_UNJOINED_ROLES = ("tool", "function")


class SageMakerModel:
    """A `TokenSource` of an endpoint, by InvokeEndpointWithResponseStream.

    Args:
        endpoint: the endpoint's name.
        max_tokens: the longest answer. None: the container's own limit.
        most_calls: how many answers are generated at once.
        response_bytes: the longest text of an answer.
    """

    def __init__(
        self, endpoint: str, max_tokens: int | None, most_calls: int, response_bytes: int = 0
    ) -> None:
        self._endpoint = endpoint
        self._max_tokens = max_tokens
        self._response_bytes = response_bytes
        self._client = AwsClient("sagemaker-runtime", most_calls, _CHECK)
        self._failures = Failures()

    @property
    def continues(self) -> bool:
        """False: not every model on SageMaker can continue an answer."""
        return False

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        parameters = streamed_parameters(request.options.within(self._max_tokens).parameters())
        model = {"model": request.model} if request.model else {}
        answer = await self._client.call(
            "invoke_endpoint_with_response_stream",
            EndpointName=self._endpoint,
            ContentType="application/json",
            Body=orjson.dumps({**parameters, **model, "messages": _messages(request.turns)}),
        )
        reply = OpenAIAnswer(sink, self._failures, choices=request.options.choices)
        body = AnswerBody(reply, sink, self._response_bytes)
        with hanging_up(answer["Body"]) as events:
            may_follow = True
            # The body is read to its end also after the last event, to keep the connection.
            while (part := await self._next_part(events, reply)) is not None and (
                may_follow or reply.has_ended
            ):
                may_follow = may_follow and body.take(part)
                if body.is_within_event:
                    sink.alive()
                await while_paused(sink)
                while may_follow and body.waits:
                    may_follow = body.take(b"")
                    await while_paused(sink)
        return body.finish()

    async def _next_part(self, events: AsyncIterator[Event], reply: OpenAIAnswer) -> bytes | None:
        """The next part of the body. None: the body ended, or only its end was lost."""
        try:
            event = await self._client.next_event(events)
        except UpstreamFailed:
            if not reply.has_ended:
                raise
            return None
        return None if event is None else _part_of(event)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _messages(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """The messages for chat templates: user and assistant in turn, and one text a turn."""
    messages: list[dict[str, Any]] = []
    if instructions := system_texts(turns):
        messages.append({"role": "system", "content": "\n\n".join(instructions)})
    for role, spoken_turns in alternating_turns(turns):
        messages.extend(
            map(
                openai_message,
                spoken_turns if role in _UNJOINED_ROLES else [_joined(role, spoken_turns)],
            )
        )
    return messages


def _joined(role: str, turns: Sequence[Turn]) -> Turn:
    """Join the turns of one role. A single turn keeps its further fields."""
    if len(turns) == 1:
        return turns[0]
    calls = tuple(call for turn in turns for call in turn.tool_calls)
    if any(turn.parts for turn in turns):
        return Turn(role, "", calls, parts=tuple(part for turn in turns for part in _parts(turn)))
    return Turn(role, "\n\n".join(turn.text for turn in turns if turn.text or not calls), calls)


def _parts(turn: Turn) -> Sequence[dict[str, Any]]:
    return turn.parts or ([{"type": "text", "text": turn.text}] if turn.text else [])


def _part_of(event: Event) -> bytes:
    if "PayloadPart" not in event:
        raise unreadable_event()
    part: bytes = event["PayloadPart"]["Bytes"]
    return part
