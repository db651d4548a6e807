"""What the tests need of both services alike: how an answer looks on the wire, and how it goes
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from evenflow.fargate_handler.token_sources.bedrock import BedrockModel
from evenflow.fargate_handler.token_sources.port import TokenSource
from evenflow.fargate_handler.token_sources.sagemaker import SageMakerModel
from tests.integration.aws_models.events import (
    MESSAGE_START,
    bedrock_end,
    chat_chunk,
    chat_usage,
    cut_anywhere,
    exception,
    json_lines,
    payload_part,
    sse,
    text_delta,
)


@dataclass(frozen=True)
class Service:
    """One of them.

    Args:
        model: what EVENFLOW_MODEL says.
        source: makes the token source for so many calls at once.
        begin: the messages with these texts, without an end.
        end: the messages behind the last text.
        headers: of the answer.
        in_stream: the exceptions that end a stream: each as a message, and the contract's code for
            it.
    """

    model: str
    source: Callable[[int], TokenSource]
    begin: Callable[[Sequence[str]], list[bytes]]
    end: list[bytes]
    headers: dict[str, str]
    in_stream: dict[str, tuple[bytes, str]]

    def answer(self, texts: Sequence[str]) -> list[bytes]:
        """The messages of a whole answer."""
        return self.begin(texts) + self.end


def _bedrock_begin(texts: Sequence[str]) -> list[bytes]:
    return [MESSAGE_START, *map(text_delta, texts)]


def _parts(data: bytes) -> list[bytes]:
    longest = max(60, len(data) // 500)
    return [payload_part(piece) for piece in cut_anywhere(data, Random(len(data)), longest)]


BEDROCK = Service(
    "bedrock",
    lambda most: BedrockModel("eu.a-model-v1:0", 1000, most),
    _bedrock_begin,
    [bedrock_end()],
    {},
    {
        kind: (exception(kind, "something of AWS' own"), code)
        for kind, code in {
            "throttlingException": "upstream_throttled",
            "modelStreamErrorException": "upstream_failed",
            "internalServerException": "upstream_failed",
            "serviceUnavailableException": "upstream_overloaded",
            "validationException": "model_refused",
            "exceptionOfTomorrow": "upstream_failed",
        }.items()
    },
)
_SAGEMAKER_EXCEPTIONS = {
    "ModelStreamError": (
        exception("ModelStreamError", "it broke", ErrorCode="StreamBroken"),
        "upstream_failed",
    ),
    "InternalStreamFailure": (exception("InternalStreamFailure", "it broke"), "upstream_failed"),
    "exceptionOfTomorrow": (exception("exceptionOfTomorrow", "something"), "upstream_failed"),
}
_END = (chat_chunk(finish_reason="stop"), chat_usage(), "[DONE]")
SAGEMAKER_VLLM = Service(
    "sagemaker",
    lambda most: SageMakerModel("an-endpoint", 1000, most),
    lambda texts: _parts(sse(*map(chat_chunk, texts))),
    _parts(sse(*_END)),
    {"X-Amzn-SageMaker-Content-Type": "text/event-stream; charset=utf-8"},
    _SAGEMAKER_EXCEPTIONS,
)
SAGEMAKER_LMI = Service(
    "sagemaker",
    lambda most: SageMakerModel("lmi-endpoint", 1000, most),
    lambda texts: _parts(json_lines(*map(chat_chunk, texts))),
    _parts(json_lines(*_END)),
    {"X-Amzn-SageMaker-Content-Type": "application/jsonlines"},
    _SAGEMAKER_EXCEPTIONS,
)
SERVICES = {"bedrock": BEDROCK, "sagemaker-vllm": SAGEMAKER_VLLM, "sagemaker-lmi": SAGEMAKER_LMI}
