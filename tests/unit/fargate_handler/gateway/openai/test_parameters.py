from __future__ import annotations

import pytest
from openai.types.chat import (
    ChatCompletionAssistantMessageParam,
    ChatCompletionStreamOptionsParam,
    ChatCompletionToolMessageParam,
    ChatCompletionUserMessageParam,
)
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.shared_params import FunctionDefinition

from fargate_handler.gateway.openai import parameters
from fargate_handler.gateway.openai.parameters import NEUTRAL, check_parameters
from stream_core.completion_bodies import CompletionRequest, OfferedFunction, RequestMessage, StreamOptions
from stream_core.errors import InvalidRequest


def test_every_parameter_that_the_stock_client_knows_is_obeyed_or_answered_by_name() -> None:
    obeyed = set(CompletionRequest.model_fields)
    assert obeyed - {"timeout_ms"} | set(NEUTRAL) | parameters.WITHOUT_EFFECT == set(
        CompletionCreateParamsStreaming.__required_keys__ | CompletionCreateParamsStreaming.__optional_keys__
    )
    messages = (
        ChatCompletionUserMessageParam,
        ChatCompletionAssistantMessageParam,
        ChatCompletionToolMessageParam,
    )
    known = set().union(*(message.__annotations__ for message in messages))
    assert known <= set(RequestMessage.model_fields) | set(parameters.NEUTRAL_IN_MESSAGES)
    assert set(OfferedFunction.model_fields) == set(FunctionDefinition.__annotations__)
    assert set(ChatCompletionStreamOptionsParam.__annotations__) == (
        set(StreamOptions.model_fields) | set(parameters.NEUTRAL_IN_STREAM_OPTIONS)
    )


@pytest.mark.parametrize("name", sorted(NEUTRAL))
def test_a_parameter_that_is_not_obeyed_may_ask_for_nothing(name: str) -> None:
    for value in (None, *NEUTRAL[name]):
        check_parameters({name: value}, NEUTRAL)
    with pytest.raises(InvalidRequest) as refused:
        check_parameters({name: "something"}, NEUTRAL)
    assert (refused.value.code, refused.value.param) == ("unsupported_parameter", name)


def test_what_nobody_knows_is_named() -> None:
    with pytest.raises(InvalidRequest, match="Unrecognized request argument supplied: best_off") as refused:
        check_parameters({"safety_identifier": "u", "best_off": 1}, NEUTRAL)
    assert (refused.value.code, refused.value.param) == ("unknown_parameter", "best_off")


def test_what_has_no_effect_on_top_is_unknown_further_in() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_parameters({"user": "u"}, parameters.NEUTRAL_IN_MESSAGES, "messages.0.")
    assert refused.value.param == "messages.0.user"
