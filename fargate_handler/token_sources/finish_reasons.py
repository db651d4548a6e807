"""Translates the finish reasons of model servers."""

from __future__ import annotations

import re

from evenflow.fargate_handler.token_sources.port import ModelEnd
from evenflow.stream_core.protocol.errors import UpstreamFailed

_ENDS: dict[str, ModelEnd] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "sensitive": "content_filter",
    "safety": "content_filter",
    "refusal": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
}
"""By the reasons of well-known servers, in lower case. Any other harmless one is `stop`."""
# `error`, `abort` (vLLM, SGLang), `network_error` (GLM), `insufficient_system_resource` (DeepSeek),
# `malformed_function_call` (Gemini) and their like.
_FAILURE = re.compile(
    "error|fail|abort|cancel|interrupt|timeout|timed_out|malformed|insufficient|overload"
    "|unavailable|exception|crash"
)
_LONGEST_TOLD = 64


def model_end(reason: str) -> ModelEnd:
    """Translate a finish reason. A harmless unknown one is `stop`.

    Raises:
        UpstreamFailed: the reason says that the model's server failed.
    """
    if is_failure(reason):
        raise UpstreamFailed(
            f"the model's server ended its answer with {reason[:_LONGEST_TOLD]!r}, so it failed in "
            "the middle; what came before was kept",
            code="upstream_failed",
        )
    return _ENDS.get(_plain(reason), "stop")


def is_failure(reason: str) -> bool:
    """Whether a finish reason says that the model's server failed."""
    plain = _plain(reason)
    return plain not in _ENDS and _FAILURE.search(plain) is not None


def _plain(reason: str) -> str:
    return reason.strip().lower().replace("-", "_").replace(" ", "_")
