"""A model on Amazon Bedrock, by ConverseStream."""

from __future__ import annotations

from evenflow.fargate_handler.token_sources.aws_client import AwsClient, hanging_up
from evenflow.fargate_handler.token_sources.bedrock_answer import AnswerTool, BedrockAnswer
from evenflow.fargate_handler.token_sources.bedrock_request import answer_tool, bedrock_request
from evenflow.fargate_handler.token_sources.bedrock_terms import BedrockTerms
from evenflow.fargate_handler.token_sources.model_connection import while_paused
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink

_CHECK = (
    "EVENFLOW_MODEL_NAME (a model or an inference profile of this region), AWS_REGION, the "
    "credentials and their permission bedrock:InvokeModelWithResponseStream, and the account's "
    "access to the model"
)
_NO_TERMS = BedrockTerms()


class BedrockModel:
    """A `TokenSource` of a model on Bedrock.

    Args:
        model: the id or ARN of a model or an inference profile.
        max_tokens: the longest answer, and what the service reserves of the account's quota. None:
            the model's own limit.
        most_calls: how many answers are generated at once.
    """

    def __init__(
        self,
        model: str,
        max_tokens: int | None,
        most_calls: int,
        terms: BedrockTerms = _NO_TERMS,
    ) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._terms = terms
        self._client = AwsClient("bedrock-runtime", most_calls, _CHECK)

    @property
    def continues(self) -> bool:
        """False: not every model on Bedrock can continue an answer."""
        return False

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        reply = BedrockAnswer(sink)
        schema = AnswerTool(answer_tool(request.options))
        # The request is kept in no name: it may be large, and the answer long.
        answer = await self._client.call(
            "converse_stream",
            modelId=request.model or self._model,
            **self._terms.applied_to(bedrock_request(request, self._max_tokens)),
        )
        with hanging_up(answer["stream"]) as events:
            while (event := await self._client.next_event(events)) is not None:
                if (rewritten := schema.rewrite(event)) is None:
                    sink.alive()
                else:
                    reply.take(rewritten)
                await while_paused(sink)
        return reply.finish()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
