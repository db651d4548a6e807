from __future__ import annotations

import pytest

from evenflow.fargate_handler.token_sources.finish_reasons import model_end
from evenflow.stream_core.protocol.errors import UpstreamFailed


@pytest.mark.parametrize(
    "reason",
    [
        *("error", "abort", "network_error", "Network-Error", "ABORTED", "failed", "timeout"),
        *("cancelled", "insufficient_system_resource", "malformed_function_call"),
        *("engine_overloaded", "internal error"),
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
        *((reason, "stop") for reason in ("stop", "eos", "end_turn", "stop_sequence", "", "tired")),
        *((reason, "length") for reason in ("length", "MAX_TOKENS", "model_length")),
        *((reason, "tool_calls") for reason in ("tool_calls", "function_call", "tool_use")),
        *((reason, "content_filter") for reason in ("content_filter", "SAFETY", "sensitive")),
    ],
)
def test_any_other_reason_is_an_end(reason: str, end: str) -> None:
    assert model_end(reason) == end
