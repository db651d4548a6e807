from __future__ import annotations

import logging
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources import bedrock_request
from evenflow.fargate_handler.token_sources.bedrock_request import (
    NEUTRAL,
    WITHOUT_EFFECT,
    check_passed,
)
from evenflow.stream_core.base.errors import ModelRefused, UnsupportedByModel
from evenflow.stream_core.protocols.openai_chat.bodies import CompletionRequest

# Those whose every value would change the answer.
_REFUSED = {"audio", "moderation", "prediction", "verbosity", "web_search_options"}


def test_each_parameter_of_the_stock_client_is_told_left_out_or_refused() -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    known = set(
        CompletionCreateParamsStreaming.__required_keys__
        | CompletionCreateParamsStreaming.__optional_keys__
    )
    told = set(CompletionRequest.model_fields) | {"reasoning_effort"}
    assert known - told == (WITHOUT_EFFECT | set(NEUTRAL) | _REFUSED) - told


@pytest.mark.parametrize("name", sorted(NEUTRAL))
def test_what_asks_for_nothing_is_taken(name: str) -> None:
    for value in NEUTRAL[name]:
        check_passed({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "something") for name in sorted(_REFUSED)),
        ("frequency_penalty", 0.5),
        ("presence_penalty", -1),
        ("logit_bias", {"1": 2}),
        ("logprobs", True),
        ("top_logprobs", 2),
        ("n", 2),
        ("modalities", ["text", "audio"]),
        ("functions", [{"name": "f"}]),
        ("min_p", 0.1),
        ("chat_template_kwargs", {"enable_thinking": False}),
        ("ignore_eos", True),
        ("temprature", 1),
        ("response_format", {"type": "json_object"}),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "x"}}),
    ],
)
def test_what_would_change_the_answer_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UnsupportedByModel) as refused:
        check_passed({"user": "u", name: value})
    assert (refused.value.status, refused.value.code, refused.value.param) == (
        400,
        "unsupported_parameter",
        name,
    )
    assert isinstance(refused.value, ModelRefused), "so that nobody tries again"


def test_what_says_nothing_about_the_answer_is_left_out_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bedrock_request._left_out.cache_clear()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            check_passed(dict.fromkeys(WITHOUT_EFFECT, "x"))
    assert len(caplog.messages) == len(WITHOUT_EFFECT)
