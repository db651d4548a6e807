"""Translates the finish reasons of model servers."""

from __future__ import annotations

import re
from typing import Literal

from evenflow.fargate_handler.token_sources.port import ModelEnd
from evenflow.stream_core.base.errors import UpstreamFailed

_REASONS: dict[ModelEnd, tuple[str, ...]] = {
    "stop": (
        "stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "finish",
        "finished", "end", "done", "normal",
    ),
    "length": (
        "length", "max_tokens", "max_output_tokens", "model_length", "token_limit",
        "model_context_window_exceeded", "repetition",
    ),
    "tool_calls": ("tool_calls", "tool_use", "function_call"),
    "content_filter": (
        "content_filter", "content_filtered", "guardrail_intervened", "sensitive", "safety",
        "refusal", "recitation", "blocklist", "prohibited_content", "spii", "language",
        "image_safety", "image_prohibited_content", "image_recitation", "error_toxic",
    ),
}  # fmt: skip
"""The reasons of well-known servers, in lower case. Any other harmless one is `stop`."""
_ENDS = {name: end for end, names in _REASONS.items() for name in names}
# `error`, `abort` (vLLM, SGLang), `network_error` (GLM), `insufficient_system_resource` (DeepSeek),
# `malformed_function_call`, `function_call_filter: UNEXPECTED_TOOL_CALL` (Gemini) and their like.
_FAILURE = re.compile(
    "error|fail|abort|cancel|interrupt|timeout|timed_out|malformed|insufficient|overload"
    "|unavailable|exception|crash|function_call_filter|unexpected_tool_call|too_many_tool_calls"
    "|missing_thought_signature"
)
# `content_filter: SAFETY` (Gemini), `FinishReason.SAFETY`
_BETWEEN_PARTS = re.compile(r"[:.]")
_LONGEST_TOLD = 64


def model_end(reason: str) -> ModelEnd:
    """Translate a finish reason. A harmless unknown one is `stop`.

    Raises:
        UpstreamFailed: the reason means that the model's server failed.
    """
    meant = _meaning(reason)
    if meant == "failure":
        raise UpstreamFailed(
            f"the model's server ended its answer with {reason[:_LONGEST_TOLD]!r}, so it failed in "
            "the middle; what came before was kept",
            code="upstream_failed",
        )
    return meant or "stop"


def is_failure(reason: str) -> bool:
    """Whether a finish reason means that the model's server failed."""
    return _meaning(reason) == "failure"


def is_known(reason: str) -> bool:
    """Whether the meaning of a finish reason is known."""
    return _meaning(reason) is not None


def _meaning(reason: str) -> ModelEnd | Literal["failure"] | None:
    """The meaning of a finish reason. Of a reason in parts the first known part counts."""
    for part in _BETWEEN_PARTS.split(reason):
        plain = part.strip().lower().replace("-", "_").replace(" ", "_")
        if plain in _ENDS:
            return _ENDS[plain]
        if _FAILURE.search(plain):
            return "failure"
    return None
