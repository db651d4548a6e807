from __future__ import annotations

import json

import pytest

from fargate_handler.gateway.openai.completion_request import CompletionCall, read_call
from fargate_handler.token_sources.port import ModelOptions
from stream_core.conversation import Turn
from stream_core.errors import InvalidRequest


def call(**parameters: object) -> CompletionCall:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]} | parameters
    return read_call(json.dumps(body).encode())


def test_the_shortest_request() -> None:
    understood = call()
    assert understood.asked.turns == (Turn("user", "hello"),)
    assert understood.asked.options == ModelOptions()
    assert (understood.model, understood.stream, understood.include_usage, understood.timeout_ms) == (
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
    options = call(temperature=1, top_p=0.5, stop=["a", "b"], seed=-1, max_completion_tokens=3).asked.options
    assert options == ModelOptions(None, 3, 1, 0.5, ("a", "b"), -1)
    assert call(stop="a").asked.options.stop == ("a",)


def test_developers_speak_as_the_system() -> None:
    messages = [{"role": "developer", "content": "a"}, {"role": "system", "content": "b"}]
    assert [turn.role for turn in call(messages=messages).asked.turns] == ["system", "system"]


def test_parts_of_text_are_one_text() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert call(messages=[{"role": "user", "content": parts}]).asked.turns == (Turn("user", "one two"),)


def test_an_empty_text_is_a_text() -> None:
    assert call(messages=[{"role": "assistant", "content": ""}]).asked.turns == (Turn("assistant", ""),)


@pytest.mark.parametrize(
    ("content", "where", "told"),
    [
        (None, "", "must be text"),
        ([], "", "must be text"),
        (5, "", "Input should be a string or a list"),
        ({"type": "text"}, "", "Input should be a string or a list"),
        ([5], ".0", "Input should be an object"),
        ([{"type": "text"}, {}], ".1.type", "Field required"),
        ([{"type": "text"}], ".0", "must be a part of type text"),
        ([{"type": "input_audio", "input_audio": {}}], ".0", "must be a part of type text"),
    ],
)
def test_anything_else_is_refused_by_its_place(content: object, where: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(messages=[{"role": "user", "content": "x"}, {"role": "user", "content": content}])
    assert refused.value.param == f"messages.1.content{where}"
    assert told in refused.value.message


@pytest.mark.parametrize(
    ("stop", "param", "told"),
    [
        (5, "stop", "Input should be a string or a list"),
        ("", "stop", "String should have at least 1 character"),
        (["a", "b", "c", "d", "e"], "stop", "List should have at most 4 items"),
        (["a", "", "c"], "stop.1", "String should have at least 1 character"),
        ([5], "stop.0", "Input should be a valid string"),
    ],
)
def test_a_wrong_stop_is_refused_by_its_place(stop: object, param: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(stop=stop)
    assert (refused.value.code, refused.value.param) == ("invalid_field", param)
    assert refused.value.message.startswith(f"{param}: {told}")
