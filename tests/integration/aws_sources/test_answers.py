"""Whole answers: what is asked, and what comes of the bytes."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.settings.model_values import Guardrail
from evenflow.fargate_handler.token_sources.bedrock import BedrockModel
from evenflow.fargate_handler.token_sources.bedrock_terms import BedrockTerms
from evenflow.fargate_handler.token_sources.port import ModelOptions, ModelRequest
from evenflow.stream_core.session.conversation import Turn
from tests.integration.aws_models.events import chat_chunk, json_event, payload_part, sse
from tests.integration.aws_models.model_server import ModelServer
from tests.integration.aws_models.reply import sends
from tests.integration.aws_models.services import BEDROCK, SAGEMAKER_LMI, SAGEMAKER_VLLM, Service
from tests.integration.aws_sources.conftest import (
    FINISH,
    TEXTS,
    WHOLE,
    Opened,
    asks,
)
from tests.integration.chat_client import demo
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink


def _bytewise(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 13, 1_000_000])
async def test_an_answer_in_whatever_pieces(
    service: Service, model: ModelServer, opened: Opened, size: int
) -> None:
    model.will(sends(*_bytewise(b"".join(service.answer(TEXTS)), size), headers=service.headers))
    sink = RecordingSink()
    assert await opened(service).generate(asks("a question"), sink) == FINISH
    assert sink.text == WHOLE


class PausingSink(RecordingSink):
    """It is paused for a turn of the loop after each token."""

    def push(self, token: str) -> None:
        super().push(token)
        self.paused = True
        asyncio.get_running_loop().call_soon(setattr, self, "paused", False)


async def test_events_that_come_together_are_all_taken_by_a_sink_that_pauses(
    model: ModelServer, opened: Opened
) -> None:
    events = sse(*map(chat_chunk, TEXTS), chat_chunk(finish_reason="stop"))
    model.will(sends(payload_part(events), headers=SAGEMAKER_VLLM.headers))
    sink = PausingSink()
    await opened(SAGEMAKER_VLLM).generate(asks("a question"), sink)
    assert sink.text == WHOLE


async def test_a_container_that_says_that_it_still_works_gives_a_sign_of_life(
    model: ModelServer, opened: Opened
) -> None:
    first, *rest = SAGEMAKER_VLLM.answer(TEXTS)
    still_here = payload_part(b": still here\n\n")
    model.will(sends(still_here, first, *rest, headers=SAGEMAKER_VLLM.headers))
    sink = RecordingSink()
    await opened(SAGEMAKER_VLLM).generate(asks("a question"), sink)
    without = RecordingSink()
    model.will(sends(first, *rest, headers=SAGEMAKER_VLLM.headers))
    await opened(SAGEMAKER_VLLM).generate(asks("a question"), without)
    assert sink.text == without.text == WHOLE
    assert sink.signs_of_life == without.signs_of_life + 1


async def test_bedrock_is_asked_in_its_own_way(model: ModelServer, opened: Opened) -> None:
    model.will(sends(*BEDROCK.answer(TEXTS)))
    request = ModelRequest(
        "demo", (Turn("user", "first"), Turn("user", "again"), Turn("assistant", "yes")), 1
    )
    request = ModelRequest("demo", (*request.turns, Turn("user", "then")), 1)
    await opened(BEDROCK).generate(request, RecordingSink())
    assert model.requests[0] == {
        "name": "eu.a-model-v1:0",
        "inferenceConfig": {"maxTokens": 1000},
        "messages": [
            {"role": "user", "content": [{"text": "first"}, {"text": "again"}]},
            {"role": "assistant", "content": [{"text": "yes"}]},
            {"role": "user", "content": [{"text": "then"}]},
        ],
    }


_SYSTEM = (Turn("system", "be brief"), Turn("user", "hello"))


async def test_bedrock_is_told_how_to_answer(model: ModelServer, opened: Opened) -> None:
    model.will(sends(*BEDROCK.answer(TEXTS)))
    options = ModelOptions(
        max_completion_tokens=5000, temperature=0, top_p=0.5, stop=("x",), seed=7
    )
    await opened(BEDROCK).generate(
        ModelRequest("demo", _SYSTEM, 1, options=options), RecordingSink()
    )
    assert model.requests[0] == {
        "name": "eu.a-model-v1:0",
        "inferenceConfig": {
            "maxTokens": 1000,
            "temperature": 0,
            "topP": 0.5,
            "stopSequences": ["x"],
        },
        "system": [{"text": "be brief"}],
        "messages": [{"role": "user", "content": [{"text": "hello"}]}],
    }


async def test_bedrock_is_told_its_terms_in_the_wires_own_words(model: ModelServer) -> None:
    model.will(sends(*BEDROCK.answer(TEXTS)))
    terms = BedrockTerms("1h", "priority", Guardrail("abc123", "2"), "async")
    source = BedrockModel("a-model", 1000, 1, terms)
    await source.generate(ModelRequest("demo", _SYSTEM, 1), RecordingSink())
    await source.close()
    point = {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert model.requests[0] == {
        "name": "a-model",
        "inferenceConfig": {"maxTokens": 1000},
        "serviceTier": {"type": "priority"},
        "guardrailConfig": {
            "guardrailIdentifier": "abc123",
            "guardrailVersion": "2",
            "streamProcessingMode": "async",
        },
        "system": [{"text": "be brief"}, point],
        "messages": [{"role": "user", "content": [{"text": "hello"}, point]}],
    }


async def test_sagemaker_is_told_how_to_answer(model: ModelServer, opened: Opened) -> None:
    model.will(sends(*SAGEMAKER_VLLM.answer(TEXTS), headers=SAGEMAKER_VLLM.headers))
    options = ModelOptions(max_tokens=7, temperature=0.5, stop=("x", "y"), seed=7)
    await opened(SAGEMAKER_VLLM).generate(
        ModelRequest("demo", _SYSTEM, 1, options=options), RecordingSink()
    )
    assert model.requests[0] == {
        "name": "an-endpoint",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 7,
        "temperature": 0.5,
        "stop": ["x", "y"],
        "seed": 7,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
        ],
    }


async def test_bedrock_is_asked_by_an_arn_and_without_a_limit(model: ModelServer) -> None:
    arn = "arn:aws:bedrock:eu-central-1:111111111111:application-inference-profile/abc"
    model.will(sends(*BEDROCK.answer(TEXTS)))
    source = BedrockModel(arn, None, 1)
    await source.generate(asks("a question"), RecordingSink())
    await source.close()
    assert (model.requests[0]["name"], model.requests[0]["inferenceConfig"]) == (arn, {})


async def test_sagemaker_is_asked_in_openais_way(model: ModelServer, opened: Opened) -> None:
    model.will(sends(*SAGEMAKER_VLLM.answer(TEXTS), headers=SAGEMAKER_VLLM.headers))
    turns = (
        Turn("user", "first"),
        Turn("user", "again"),
        Turn("assistant", "yes"),
        Turn("user", "then"),
    )
    await opened(SAGEMAKER_VLLM).generate(ModelRequest("demo", turns, 1), RecordingSink())
    assert model.requests[0] == {
        "name": "an-endpoint",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 1000,
        "messages": [
            {"role": "user", "content": "first\n\nagain"},
            {"role": "assistant", "content": "yes"},
            {"role": "user", "content": "then"},
        ],
    }


async def test_types_of_event_that_nobody_knows_yet_are_passed_over(
    model: ModelServer, opened: Opened
) -> None:
    new = json_event("contentBlockTomorrow", {"x": 1})
    begin, *rest = BEDROCK.answer(TEXTS)
    model.will(sends(begin, new, *rest, new))
    sink = RecordingSink()
    assert await opened(BEDROCK).generate(asks("a question"), sink) == FINISH
    assert sink.text == WHOLE


async def test_a_connection_is_used_again_after_a_whole_answer(
    either: Service, model: ModelServer, opened: Opened
) -> None:
    source = opened(either)
    for number in range(5):
        await source.generate(asks(demo(tokens=3, gap_ms=0, seed=number)), RecordingSink())
    assert model.connections == 1


@pytest.mark.parametrize("service", [SAGEMAKER_VLLM, SAGEMAKER_LMI])
async def test_an_answer_that_is_cut_behind_its_end_is_whole(
    service: Service, model: ModelServer, opened: Opened
) -> None:
    pieces = service.answer(TEXTS)
    model.will(sends(*pieces, gap=0.01, then="break", headers=service.headers))
    sink = RecordingSink()
    assert await opened(service).generate(asks("a question"), sink) == FINISH
    assert sink.text == WHOLE
