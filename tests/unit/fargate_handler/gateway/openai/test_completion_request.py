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


@pytest.mark.parametrize("content", [None, [], 5, [{"type": "text"}], [{"type": "input_audio", "input_audio": {}}]])
def test_anything_else_is_refused(content: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        call(messages=[{"role": "user", "content": "x"}, {"role": "user", "content": content}])
    assert refused.value.param is not None
    assert refused.value.param.startswith("messages.1.content")
