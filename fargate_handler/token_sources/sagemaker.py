"""A model on a SageMaker endpoint, by InvokeEndpointWithResponseStream: a container that takes OpenAI's chat payload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from fargate_handler.token_sources.alternating_turns import alternating_turns
from fargate_handler.token_sources.aws_client import AwsClient, Event, hanging_up
from fargate_handler.token_sources.aws_failures import unreadable_event
from fargate_handler.token_sources.holding import while_held
from fargate_handler.token_sources.json_lines_decoder import JsonLinesDecoder
from fargate_handler.token_sources.openai_answer import DONE, OpenAIAnswer
from fargate_handler.token_sources.openai_messages import openai_message
from fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from fargate_handler.token_sources.sse_decoder import SseDecoder
from fargate_handler.token_sources.system_texts import system_texts
from stream_core.conversation import Turn

_CHECK = (
    "EVENFLOW_MODEL_NAME (an endpoint of this region, in service), AWS_REGION, the credentials and their permission "
    "sagemaker:InvokeEndpoint"
)


class SageMakerModel:
    """See `TokenSource`.

    Args:
        endpoint: the endpoint's name.
        max_tokens: the longest answer; None for the container's own limit.
        most_calls: how many answers are generated at once.
    """

    def __init__(self, endpoint: str, max_tokens: int | None, most_calls: int) -> None:
        self._endpoint = endpoint
        self._options = {"stream": True, "stream_options": {"include_usage": True}}
        self._max_tokens = max_tokens
        self._client = AwsClient("sagemaker-runtime", most_calls, _CHECK)

    @property
    def continues(self) -> bool:
        """See `TokenSource.continues`: not every model there can."""
        return False

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """See `TokenSource.generate`."""
        messages = _messages(request.turns)
        answer = await self._client.call(
            "invoke_endpoint_with_response_stream",
            EndpointName=self._endpoint,
            ContentType="application/json",
            Body=orjson.dumps(
                {"messages": messages, **self._options, **request.options.within(self._max_tokens).given()}
            ),
        )
        reply, decoder = OpenAIAnswer(sink, marked=request.marked), _decoder_of(answer)
        with hanging_up(answer["Body"]) as events:
            while (event := await self._client.next_event(events)) is not None:
                for data in decoder.feed(_part_of(event)):
                    if data != DONE:
                        reply.take(data)
                await while_held(sink)
        return reply.finish()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _messages(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Many chat templates insist on alternation, and take one text a turn."""
    messages: list[dict[str, Any]] = []
    if instructions := system_texts(turns):
        messages.append({"role": "system", "content": "\n\n".join(instructions)})
    for role, said in alternating_turns(turns):
        if role == "tool":
            messages.extend(map(openai_message, said))
        else:
            calls = tuple(call for turn in said for call in turn.tool_calls)
            text = "\n\n".join(turn.text for turn in said if turn.text or not calls)
            messages.append(openai_message(Turn(role, text, calls)))
    return messages


def _decoder_of(answer: dict[str, Any]) -> SseDecoder | JsonLinesDecoder:
    # vLLM sends server-sent events; the LMI container unwraps them and sends JSON lines.
    return JsonLinesDecoder() if "jsonlines" in answer.get("ContentType", "") else SseDecoder()


def _part_of(event: Event) -> bytes:
    if "PayloadPart" not in event:
        raise unreadable_event()
    part: bytes = event["PayloadPart"]["Bytes"]
    return part
