"""What is kept of an answer because its model's server needs it back."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest

from evenflow.stream_core.log.entries import (
    CALL_EXTRA,
    CHUNK_EXTRA,
    EXTRA,
    LONGEST_VALUE,
    Content,
    Part,
    PartKind,
)
from evenflow.stream_core.log.returned_fields import detail_of
from tests.integration.aws_models.events import chat_chunk
from tests.unit.fargate_handler.token_sources.test_openai_answer import fragment, told

_TEXT = {"type": "reasoning.text", "index": 0, "format": "x"}
_HIDDEN = {"type": "reasoning.encrypted", "index": 1, "data": "c2ln"}
_SIGNATURE = {"google": {"thought_signature": "c2ln"}}
_ADD = {"name": "add", "arguments": "{}"}


def _fields(fields: dict[str, Any], choice: int = 0) -> Part:
    return Part(PartKind.DATA, orjson.dumps(fields).decode(), choice, name=EXTRA)


def _of_call(fields: dict[str, Any], call: int = 0) -> Part:
    return Part(PartKind.DATA, orjson.dumps(fields).decode(), call=call, name=CALL_EXTRA)


def _thought(text: str, field: str = "reasoning", **entry: Any) -> Part:
    detail = detail_of("reasoning_details", _TEXT | entry, "text")
    return Part(PartKind.REASONING, text, id=detail, name=field)


def _call(number: int, call_id: str) -> list[Content]:
    return [
        Part(PartKind.CALL, call=number, id=call_id, name="add"),
        Part(PartKind.ARGUMENTS, "{}", call=number),
        Part(PartKind.CALL_END, call=number),
    ]


def test_fields_of_a_call_come_before_it() -> None:
    signed = fragment(index=0, id="c1", function=_ADD, extra_content=_SIGNATURE)
    plain = fragment(index=1, id="c2", function=_ADD | {"parsed": None}, extra_content=None)
    assert told(signed, plain) == [
        _of_call({"extra_content": _SIGNATURE}),
        *_call(0, "c1"),
        *_call(1, "c2"),
    ]


def test_fields_of_a_function_and_those_that_come_later_are_kept() -> None:
    assert told(
        fragment(index=0, id="c1", function={"name": "add", "arguments": "{", "strictness": 1}),
        fragment(index=0, function={"arguments": "}"}, extra_content=_SIGNATURE),
        fragment(index=0, extra_content=_SIGNATURE),
    ) == [
        _of_call({"function": {"strictness": 1}}),
        Part(PartKind.CALL, id="c1", name="add"),
        Part(PartKind.ARGUMENTS, "{"),
        _of_call({"extra_content": _SIGNATURE}),
        Part(PartKind.ARGUMENTS, "}"),
        Part(PartKind.CALL_END),
    ]


def test_a_type_of_the_server_s_own_is_kept_once() -> None:
    named = {"id": "c1", "type": "builtin_function", "function": {"name": "add"}}
    assert told(
        fragment(index=0, type="builtin_function"),
        fragment(index=0, **named),
        fragment(index=0, **named | {"function": {"arguments": "{}"}}),
        fragment(index=1, id="c2", type="function", function=_ADD),
    ) == [_of_call({"call_type": "builtin_function"}), *_call(0, "c1"), *_call(1, "c2")]


def test_a_list_that_tells_the_reasoning_again_is_not_kept_beside_it() -> None:
    def chunk(text: str) -> str:
        return chat_chunk(delta={"reasoning": text, "reasoning_details": [_TEXT | {"text": text}]})

    assert told(chunk("h"), chunk("m"), chat_chunk("Yes")) == [_thought("hm"), "Yes"]


def test_a_list_may_tell_the_reasoning_alone_and_in_several_entries() -> None:
    entries = [_TEXT | {"text": "a"}, _TEXT | {"index": 1, "text": "b"}]
    assert told(chat_chunk(delta={"reasoning_details": entries})) == [
        _thought("a", ""),
        _thought("b", "", index=1),
    ]
    both = {"reasoning_content": "ab", "reasoning_details": entries}
    assert told(chat_chunk(delta=both)) == [
        _thought("a", "reasoning_content"),
        _thought("b", "reasoning_content", index=1),
    ]


def test_signatures_and_what_is_encrypted_are_kept_apart() -> None:
    signed = [_TEXT | {"text": "hm", "signature": "s"}]
    assert told(
        chat_chunk(delta={"reasoning": "hm", "reasoning_details": signed}),
        chat_chunk(delta={"content": "", "reasoning_details": [_HIDDEN]}),
        chat_chunk("Yes"),
    ) == [
        _thought("hm"),
        _fields({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s"}]}),
        _fields({"reasoning_details": [_HIDDEN]}),
        "Yes",
    ]


def test_blocks_of_anthropics_form_are_kept_too() -> None:
    piece = {"type": "thinking", "thinking": "hm", "signature": None}
    detail = detail_of("thinking_blocks", piece, "thinking")
    last = {"type": "thinking", "thinking": "", "signature": "s"}
    assert told(
        chat_chunk(delta={"reasoning_content": "hm", "thinking_blocks": [piece]}),
        chat_chunk(delta={"thinking_blocks": [last], "provider_specific_fields": {"x": [last]}}),
    ) == [
        Part(PartKind.REASONING, "hm", id=detail, name="reasoning_content"),
        _fields({"thinking_blocks": [last]}),
    ]


def test_other_fields_of_a_message_come_behind_its_text() -> None:
    chunk = chat_chunk(delta={"content": "Yes", "extra_content": _SIGNATURE, "n": 7, "flag": True})
    assert told(chunk) == ["Yes", _fields({"extra_content": _SIGNATURE})]


def test_text_that_gemini_marks_as_a_thought_is_reasoning() -> None:
    def thought(content: object, **google: str) -> str:
        extra = {"google": {"thought": True, **google}}
        return chat_chunk(delta={"content": content, "extra_content": extra})

    listed = thought([{"type": "text", "text": "m"}])
    chunks = [thought("h"), listed, thought("", thought_signature="s")]
    assert told(*chunks, chat_chunk("Yes"), chat_chunk("."), thought("So")) == [
        Part(PartKind.REASONING, "hm"),
        _fields({"extra_content": {"google": {"thought_signature": "s"}}}),
        "Yes.",
        Part(PartKind.REASONING, "So"),
    ]


def test_a_field_in_each_chunk_is_kept_once() -> None:
    chunks = [chat_chunk(delta={"content": text, "extra_content": _SIGNATURE}) for text in "abc"]
    assert told(*chunks) == ["a", _fields({"extra_content": _SIGNATURE}), "bc"]


def test_a_chunk_like_one_with_fields_is_read_whole() -> None:
    signed = [chat_chunk(delta={"content": text, "reasoning_opaque": "s" + text}) for text in "ab"]
    kept = [_fields({"reasoning_opaque": "s" + text}) for text in "ab"]
    assert told(*signed) == ["a", kept[0], "b", kept[1]]


def test_each_choice_has_its_own() -> None:
    told_twice = [
        chat_chunk(delta={"content": "", "extra_content": _SIGNATURE}, index=index)
        for index in (0, 1)
    ]
    assert told(*told_twice) == [
        _fields({"extra_content": _SIGNATURE}),
        _fields({"extra_content": _SIGNATURE}, 1),
    ]


def test_fields_that_are_too_long_are_left_out_and_the_answer_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    long = {"content": "a", "extra_content": {"signature": "s" * LONGEST_VALUE}}
    with caplog.at_level(logging.WARNING):
        assert told(chat_chunk(delta=long), chat_chunk(delta=long | {"content": "b"})) == ["ab"]
    (warned,) = caplog.messages
    assert "extra_content" in warned
    assert "sss" not in warned


def test_details_that_differ_with_each_token_are_left_out_in_the_end() -> None:
    chunks = [
        chat_chunk(
            delta={"reasoning": "x", "reasoning_details": [_TEXT | {"id": str(n), "text": "x"}]}
        )
        for n in range(70)
    ]
    kept = [part for part in told(*chunks) if isinstance(part, Part)]
    assert sum(bool(part.id) for part in kept) == 64
    assert "".join(part.text for part in kept) == "x" * 70


def test_fields_of_chunks_choices_and_usage_come_with_the_end() -> None:
    def chunk(text: str, further: dict[str, Any], **choice: object) -> str:
        return orjson.dumps(orjson.loads(chat_chunk(text, **choice)) | further).decode()

    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 7,
        "cost": 0.5,
        "prompt_tokens_details": {"cached_tokens": 1, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    head = {"id": "x", "created": 1, "model": "m", "obfuscation": "zz", "service_tier": None}
    said = told(
        chunk("a", head | {"provider": "P"}, stop_reason=None, content_filter_results={"hate": 1}),
        chunk("b", head | {"provider": "Q"}, index=1, native_finish_reason="x"),
        orjson.dumps({"type": "ping", "provider": "R"}).decode(),
        orjson.dumps({"choices": [], "usage": usage}).decode(),
    )
    (first, second) = (part for part in said if isinstance(part, Part) and part.name == CHUNK_EXTRA)
    assert orjson.loads(first.text) == {
        "chunk": {"provider": "Q"},
        "choice": {"content_filter_results": {"hate": 1}},
        "usage": {"cost": 0.5, "prompt_tokens_details": {"audio_tokens": 0}},
    }
    assert (second.choice, orjson.loads(second.text)) == (
        1,
        {"choice": {"native_finish_reason": "x"}},
    )


def test_fields_of_chunks_make_no_answer_and_long_ones_are_left_out() -> None:
    silent, long = orjson.loads(chat_chunk("")), orjson.loads(chat_chunk("a"))
    assert told(orjson.dumps(silent | {"provider": "P"}).decode()) == []
    much = {"prompt_logprobs": "x" * LONGEST_VALUE}
    assert told(orjson.dumps(long | much).decode()) == ["a"]


def test_fields_that_are_nested_too_deep_are_left_out_and_the_answer_is_kept() -> None:
    deep = "[" * 300 + "]" * 300
    answer = chat_chunk(delta={"content": "a", "extra_content": "DEEP"}).replace('"DEEP"', deep)
    called = fragment(index=0, id="c1", function=_ADD, x="DEEP").replace('"DEEP"', deep)
    assert told(answer, called) == ["a", *_call(0, "c1")]
