from __future__ import annotations

import json
from typing import Any

import pytest

from evenflow.fargate_handler.gateway.openai_chat.request import CompletionCall, read_call
from evenflow.fargate_handler.token_sources.port import ModelOptions
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.session.conversation import Turn


def call(**parameters: object) -> CompletionCall:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]} | parameters
    return read_call(json.dumps(body).encode())


def test_the_shortest_request() -> None:
    understood = call()
    assert understood.request.turns == (Turn("user", "hello"),)
    assert understood.request.options == ModelOptions()
    assert (
        understood.model,
        understood.stream,
        understood.include_usage,
        understood.timeout_ms,
    ) == (
        "m",
        False,
        False,
        None,
    )


def test_null_is_as_good_as_nothing() -> None:
    names = (
        "stream",
        "stream_options",
        "n",
        "max_tokens",
        "temperature",
        "top_p",
        "stop",
        "seed",
        "timeout_ms",
        "tools",
    )
    assert call(**dict.fromkeys(names)) == call()


def test_what_the_answer_should_be_like() -> None:
    options = call(
        temperature=1, top_p=0.5, stop=["a", "b"], seed=-1, max_completion_tokens=3
    ).request.options
    assert options == ModelOptions(None, 3, 1, 0.5, ("a", "b"), -1)
    assert call(stop="a").request.options.stop == ("a",)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    options = call(max_tokens=10.0, seed=7.0).request.options
    assert (options.max_tokens, options.seed) == (10, 7)
    assert isinstance(options.max_tokens, int)


def test_developers_speak_as_the_system() -> None:
    messages = [{"role": "developer", "content": "a"}, {"role": "system", "content": "b"}]
    assert [turn.role for turn in call(messages=messages).request.turns] == ["system", "system"]


def test_parts_of_text_are_one_text() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert call(messages=[{"role": "user", "content": parts}]).request.turns == (
        Turn("user", "one two"),
    )


def test_an_empty_text_is_a_text() -> None:
    assert call(messages=[{"role": "assistant", "content": ""}]).request.turns == (
        Turn("assistant", ""),
    )


@pytest.mark.parametrize(
    ("content", "where", "told"),
    [
        (None, "", "must be text"),
        ([], "", "must be text"),
        (5, "", "Input should be a string or a list"),
        ({"type": "text"}, "", "Input should be a string or a list"),
        ([5], ".0", "Input should be an object"),
        ([{"type": "text"}, {}], ".1.type", "Field required"),
        ([{"type": "text"}], ".0.text", "must be there in a part of type text"),
        (
            [{"type": "text", "text": "x", "more": float("inf")}],
            ".0",
            "a number that JSON can't have",
        ),
    ],
)
def test_anything_else_is_refused_by_its_place(content: object, where: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(messages=[{"role": "user", "content": "x"}, {"role": "user", "content": content}])
    assert refused.value.param == f"messages.1.content{where}"
    assert told in refused.value.message


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}}
CACHED = {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    "part",
    [
        IMAGE,
        CACHED,
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        {"type": "file", "file": {"file_id": "f"}},
        {"type": "of tomorrow", "x": [1, None]},
        {"type": "text", "text": "y", "text_of_tomorrow": None},
    ],
)
def test_parts_that_are_more_than_text_are_kept_as_they_came(part: dict[str, Any]) -> None:
    text = {"type": "text", "text": "see: "}
    (turn,) = call(messages=[{"role": "user", "content": [text, part]}]).request.turns
    assert turn == Turn("user", "see: " + part.get("text", ""), parts=(text, part))


def test_further_fields_of_a_message_go_on_and_those_of_an_answer_do_not() -> None:
    said = {
        "name": "Ann",
        "cache_control": {"type": "ephemeral"},
        "reasoning_content": "Hm.",
        "refusal": "No.",
    }
    echoed = {
        "annotations": [{"type": "url_citation"}],
        "parsed": {"a": 1},
        "provider_specific_fields": {"x": 1},
        "images": [],
        "function_call": None,
        "audio": None,
    }
    (turn,) = call(messages=[{"role": "assistant", "content": "x"} | said | echoed]).request.turns
    assert turn == Turn("assistant", "x", extra=said)


def test_an_assistant_may_have_refused_instead() -> None:
    (turn,) = call(
        messages=[{"role": "assistant", "content": None, "refusal": "No."}]
    ).request.turns
    assert turn == Turn("assistant", "", extra={"refusal": "No."})


PASSED: dict[str, Any] = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "a", "schema": {"b": {}, "a": {}}},
    },
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "top_logprobs": 3,
    "n": 2,
    "frequency_penalty": 0.5,
    "presence_penalty": -1,
    "reasoning_effort": "high",
    "verbosity": "low",
    "top_k": 5,
    "min_p": 0.1,
    "chat_template_kwargs": {"enable_thinking": False},
    "ignore_eos": True,
    "store": False,
    "metadata": {"a": "b"},
    "user": "u",
    "service_tier": "flex",
    "prediction": {"type": "content", "content": "x"},
    "modalities": ["text"],
    "web_search_options": {},
    "of_tomorrow": [1, {"x": None}],
}


def test_all_other_parameters_are_passed_on_as_they_came() -> None:
    understood = call(**PASSED, audio=None)
    assert understood.request.options == ModelOptions(passed=PASSED)
    assert list(understood.request.options.passed["response_format"]["json_schema"]["schema"]) == [
        "b",
        "a",
    ]


def test_of_the_stream_s_options_one_is_ours() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    understood = call(stream=True, stream_options=options)
    assert understood.include_usage
    assert understood.request.options.passed == {"stream_options": {"continuous_usage_stats": True}}


def test_what_the_model_s_server_judges() -> None:
    options = call(temperature=7, top_p=-1, stop=list("abcdefgh")).request.options
    assert options == ModelOptions(temperature=7, top_p=-1, stop=tuple("abcdefgh"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_p", float("nan")),
        ("x", {"a": [float("inf")]}),
        ("top_k", 2**64),
        ("temperature", float("nan")),
    ],
)
def test_a_number_that_json_cannot_have_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(**{name: value})
    assert (refused.value.code, refused.value.param) == ("invalid_field", name)


@pytest.mark.parametrize(
    ("stop", "param", "told"),
    [
        (5, "stop", "Input should be a string or a list"),
        ("", "stop", "String should have at least 1 character"),
        (["a", "", "c"], "stop.1", "String should have at least 1 character"),
        ([5], "stop.0", "Input should be a valid string"),
    ],
)
def test_a_wrong_stop_is_refused_by_its_place(stop: object, param: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(stop=stop)
    assert (refused.value.code, refused.value.param) == ("invalid_field", param)
    assert refused.value.message.startswith(f"{param}: {told}")


@pytest.mark.parametrize(
    ("tier", "service_class"),
    [("flex", ServiceClass.BATCH), ("priority", None), ("default", None), (None, None), (1, None)],
)
def test_a_tier_that_can_wait_is_a_lower_class_and_no_tier_is_a_higher_one(
    tier: object, service_class: ServiceClass | None
) -> None:
    assert call(service_tier=tier).terms.service_class is service_class


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("modalities", ["text", "audio"]),
        ("modalities", ["image"]),
        ("audio", {"voice": "alloy", "format": "pcm16"}),
        ("functions", [{"name": "f", "parameters": {}}]),
        ("function_call", "auto"),
    ],
)
def test_what_asks_for_an_answer_that_is_not_carried_is_refused_by_name(
    name: str, value: object
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(**{name: value})
    assert (refused.value.code, refused.value.param) == ("unsupported_parameter", name)


def test_what_asks_for_text_is_passed_on() -> None:
    assert call(modalities=["text"], functions=[]).request.options.passed == {
        "modalities": ["text"],
        "functions": [],
    }
