"""How long an answer may be: one name on the way to the model, whatever the client's is."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from evenflow.fargate_handler.gateway.openai_chat.request import read_call as read_completion
from evenflow.fargate_handler.gateway.openai_responses.request import (
    read_call as read_response,
)
from evenflow.fargate_handler.token_sources.port import ModelOptions
from evenflow.stream_core.base.agents import LONGEST_ANSWER
from evenflow.stream_core.base.errors import InvalidRequest


def completion(**given: Any) -> ModelOptions:
    """The options of a request of chat completions."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **given}
    return read_completion(orjson.dumps(body)).request.options


def response(**given: Any) -> ModelOptions:
    """The options of a request of the Responses API."""
    return read_response(orjson.dumps({"model": "m", "input": "hi", **given})).options


BOTH = pytest.mark.parametrize("read", [completion, response])


@BOTH
@pytest.mark.parametrize(
    "name",
    [
        *("max_tokens", "max_completion_tokens", "maxTokens", "MAX-TOKENS", "max_new_tokens"),
        *("max_output_tokens", "maxOutputTokens", "max_gen_len", "max_length", "maxTokenCount"),
        *("max_tokens_to_sample", "n_predict", "num_predict", "tokens_to_generate", "output_len"),
        *("request_output_len", "auto_max_new_tokens", "num_tokens_to_predict", "max_new_token"),
    ],
)
def test_each_name_of_a_length_is_the_one_that_is_reserved(read: Any, name: str) -> None:
    options = read(**{name: 9})
    assert (options.longest, options.passed) == (9, {})
    for wrong in (0, -1, True, "9", 9.5, [9], {"a": 9}):
        with pytest.raises(InvalidRequest) as refused:
            read(**{name: wrong})
        assert (refused.value.code, refused.value.param) == ("invalid_field", name)


@BOTH
@pytest.mark.parametrize(
    "name", ["max_input_tokens", "max_prompt_tokens", "max_thinking_tokens", "max_logprobs"]
)
def test_other_bounds_are_for_the_model_s_server(read: Any, name: str) -> None:
    options = read(**{name: 2})
    assert (options.longest, options.passed) == (None, {name: 2})


def test_two_names_are_refused_since_servers_differ_in_which_they_read() -> None:
    for given in ({"max_tokens": 5, "n_predict": 20_000}, {"n_predict": 5, "max_length": 5}):
        with pytest.raises(InvalidRequest) as refused:
            completion(**given)
        assert refused.value.code == "unsupported_value"
        assert all(name in refused.value.message for name in given)
    with pytest.raises(InvalidRequest) as refused:
        response(max_output_tokens=50, max_tokens=20_000)
    assert refused.value.param == "max_output_tokens"


def test_the_newer_name_stays_since_some_models_know_no_other() -> None:
    assert completion(max_completion_tokens=7) == ModelOptions(max_completion_tokens=7)
    assert completion(n_predict=2**60).max_tokens == LONGEST_ANSWER


@BOTH
@pytest.mark.parametrize(
    "given",
    [
        {"options": {"num_predict": 20_000}},
        {"extra_body": [{"vendor": {"maxOutputTokens": "20000"}}]},
        {"parameters": {"best_of": 20}},
        {"extra_body": {"models": ["dear"]}},
        {"best_of": 20},
        {"use_beam_search": True},
        {"num_beams": 4},
        {"candidateCount": 3},
        {"num_return_sequences": "2"},
        {"num_samples": 8},
        {"extra_body": {"n": 8}},
        {"models": ["dear"]},
        {"fallbacks": ["dear"]},
    ],
)
def test_what_would_cost_more_than_is_reserved_is_refused(read: Any, given: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**given)
    assert refused.value.code == "unsupported_parameter"
    assert (refused.value.param or "").startswith(next(iter(given)))


@BOTH
def test_what_asks_for_nothing_more_is_passed_on(read: Any) -> None:
    passed = {
        "best_of": 1,
        "use_beam_search": False,
        "guided_json": {"type": "string", "maxLength": 9},
        "chat_template_kwargs": {"enable_thinking": False},
        "thinking_config": {"max_tokens": 3},
        "options": {"num_ctx": 4_096, "tokens": ["a"], "n": 1, "inner": {"n": "a"}},
        "min_tokens": 4,
    }
    assert read(max_tokens=4, **passed).passed == passed


def test_an_answer_need_not_be_longer_than_it_may_be() -> None:
    with pytest.raises(InvalidRequest) as refused:
        completion(max_tokens=50, min_tokens=51)
    assert refused.value.param == "min_tokens"
    assert completion(min_tokens=51).passed == {"min_tokens": 51}


def test_a_large_parameter_is_not_looked_through() -> None:
    entries = {str(number): {"a": number} for number in range(5_000)}
    assert completion(anything=entries).passed == {"anything": entries}
