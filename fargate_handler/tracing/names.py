"""All names in our traces: of spans, of their attributes, and of models' providers.

Names `gen_ai.…` are those of OpenTelemetry's conventions for generative AI
(open-telemetry/semantic-conventions-genai), `error.type` and `rpc.…` of its general ones. Those
conventions are still in development: what they rename, is renamed here.
"""

from __future__ import annotations

from enum import StrEnum


class SpanName(StrEnum):
    """The spans of an answer at one node, and of a call at a worker.

    A span of the model is named after the operation and the model: `chat demo`.
    """

    ANSWER = "answer"
    """From the message to the answer's end at this node. All others are within it."""
    ACCEPT = "accept"
    """Until the message is on record."""
    TAKE_OVER = "take_over"
    """In the place of `accept`, at a node that goes on with the answer of another."""
    QUEUE = "queue"
    """Until there is a place for it."""
    PREFILL = "prefill"
    """Until the model's first token, over all attempts. Within the model's span."""
    DECODE = "decode"
    """From the first token to the model's end. Within the model's span."""
    EMIT = "emit"
    """One reader, from its coming to its leaving. A poll is a reader, too."""
    STORE = "store"
    """Until the store has all of it."""
    WORKER = "llm.v1.Inference/Stream"
    """A worker's side of a handler's call."""


class Attribute(StrEnum):
    """The attributes of spans. None has text of a user or a model, or a credential."""

    RESPONSE_ID = "evenflow.response_id"
    TENANT = "evenflow.tenant"
    EPOCH = "evenflow.epoch"
    STATE = "evenflow.state"
    """The final state: completed, error or cancelled; `handed_over` if another node continues."""
    ATTEMPTS = "evenflow.attempts"
    TRANSPORT = "evenflow.transport"
    AGENT = "gen_ai.agent.name"
    OPERATION = "gen_ai.operation.name"
    PROVIDER = "gen_ai.provider.name"
    REQUEST_MODEL = "gen_ai.request.model"
    STREAM = "gen_ai.request.stream"
    FINISH_REASONS = "gen_ai.response.finish_reasons"
    FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
    """Seconds."""
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
    REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
    ERROR = "error.type"
    """The error's code."""
    RPC_SYSTEM = "rpc.system.name"
    RPC_METHOD = "rpc.method"


CHAT = "chat"
HANDED_OVER = "handed_over"
GRPC = "grpc"

PROVIDERS = {
    "demo": "evenflow.demo",
    "openai": "openai",
    "bedrock": "aws.bedrock",
    "sagemaker": "aws.sagemaker",
    "grpc": "evenflow.worker",
}
"""By `EVENFLOW_MODEL`. `openai` is any server that speaks that protocol."""
