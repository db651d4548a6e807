from __future__ import annotations

import pytest

from evenflow.fargate_handler.token_sources.finish_reasons import is_known, model_end
from evenflow.stream_core.base.errors import UpstreamFailed


@pytest.mark.parametrize(
    "reason",
    [
        *("error", "abort", "network_error", "Network-Error", "ABORTED", "failed", "timeout"),
        *("cancelled", "insufficient_system_resource", "malformed_function_call"),
        *("engine_overloaded", "internal error", "error: content_filter"),
        *("unexpected_tool_call", "TOO_MANY_TOOL_CALLS", "missing_thought_signature"),
        *(f"function_call_filter: {detail}_FUNCTION_CALL" for detail in ("MALFORMED", "UNKNOWN")),
        "function_call_filter: UNEXPECTED_TOOL_CALL",
    ],
)
def test_a_reason_that_says_that_the_server_failed_is_an_error(reason: str) -> None:
    with pytest.raises(UpstreamFailed) as failed:
        model_end(reason)
    assert repr(reason) in failed.value.message
    assert "what came before was kept" in failed.value.message


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        *((reason, "stop") for reason in ("stop", "eos", "end_turn", "stop_sequence", "COMPLETE")),
        *((reason, "length") for reason in ("length", "MAX_TOKENS", "model_length", "token_limit")),
        ("repetition", "length"),
        *((reason, "tool_calls") for reason in ("tool_calls", "function_call", "tool_use")),
        *((reason, "content_filter") for reason in ("content_filter", "SAFETY", "sensitive")),
        *((reason, "content_filter") for reason in ("IMAGE_SAFETY", "language", "ERROR_TOXIC")),
        # Gemini: a kind, then its own reason, which may be one that is not known here.
        *(
            (f"content_filter: {cause}", "content_filter")
            for cause in ("SAFETY", "PROHIBITED_CONTENT", "MALFORMED_RESPONSE", "OTHER")
        ),
        ("FinishReason.SAFETY", "content_filter"),
        ("FinishReason.MAX_TOKENS", "length"),
    ],
)
def test_any_other_known_reason_is_an_end(reason: str, end: str) -> None:
    assert model_end(reason) == end
    assert is_known(reason)


@pytest.mark.parametrize("reason", ["", "tired", "sleep: now"])
def test_a_harmless_unknown_reason_is_stop(reason: str) -> None:
    assert model_end(reason) == "stop"
    assert not is_known(reason)
