from __future__ import annotations

from typing import Any

import pytest

from evenflow.fargate_handler.settings.model_values import Guardrail
from evenflow.fargate_handler.token_sources.bedrock_request import bedrock_request
from evenflow.fargate_handler.token_sources.bedrock_terms import BedrockTerms
from evenflow.fargate_handler.token_sources.port import ModelRequest
from evenflow.stream_core.session.conversation import Turn

_ARN = "arn:aws:bedrock:us-east-1:111111111111:guardrail/abc123"


def called(terms: BedrockTerms, *turns: Turn) -> dict[str, Any]:
    return terms.applied_to(bedrock_request(ModelRequest("demo", turns, 1), 1000))


def test_without_terms_nothing_is_added() -> None:
    assert called(BedrockTerms(), Turn("system", "be brief"), Turn("user", "hello")) == {
        "inferenceConfig": {"maxTokens": 1000},
        "system": [{"text": "be brief"}],
        "messages": [{"role": "user", "content": [{"text": "hello"}]}],
    }


def test_cache_points_are_behind_the_instructions_and_what_the_user_said_last() -> None:
    call = called(
        BedrockTerms(cache_ttl="5m"),
        Turn("system", "be brief"),
        Turn("user", "hello"),
        Turn("assistant", "hi"),
        Turn("user", "and now?"),
    )
    point = {"cachePoint": {"type": "default"}}
    assert call["system"] == [{"text": "be brief"}, point]
    assert [turn["content"] for turn in call["messages"]] == [
        [{"text": "hello"}],
        [{"text": "hi"}],
        [{"text": "and now?"}, point],
    ]


def test_only_an_hour_is_said() -> None:
    call = called(BedrockTerms(cache_ttl="1h"), Turn("user", "hello"))
    assert "system" not in call
    assert call["messages"][0]["content"][-1] == {"cachePoint": {"type": "default", "ttl": "1h"}}


def test_an_answer_that_is_continued_has_no_cache_point() -> None:
    call = called(BedrockTerms(cache_ttl="5m"), Turn("user", "hello"), Turn("assistant", "hi th"))
    assert "cachePoint" not in str(call)


def test_the_service_tier() -> None:
    call = called(BedrockTerms(service_tier="flex"), Turn("user", "hello"))
    assert call["serviceTier"] == {"type": "flex"}


@pytest.mark.parametrize(
    ("text", "identifier", "version"),
    [("abc123:2", "abc123", "2"), ("abc123:DRAFT", "abc123", "DRAFT"), (f"{_ARN}:7", _ARN, "7")],
)
def test_a_guardrail(text: str, identifier: str, version: str) -> None:
    terms = BedrockTerms(guardrail=Guardrail.parse(text))
    assert called(terms, Turn("user", "hello"))["guardrailConfig"] == {
        "guardrailIdentifier": identifier,
        "guardrailVersion": version,
    }


def test_a_guardrail_that_reads_beside_the_stream() -> None:
    terms = BedrockTerms(guardrail=Guardrail("abc123", "2"), guardrail_mode="async")
    config = called(terms, Turn("user", "hello"))["guardrailConfig"]
    assert config["streamProcessingMode"] == "async"


@pytest.mark.parametrize("text", ["", "abc123", "abc123:", ":1", "abc123:0", "ABC:1", f"{_ARN}"])
def test_what_is_no_guardrail(text: str) -> None:
    with pytest.raises(ValueError, match="abc123:DRAFT"):
        Guardrail.parse(text)
