"""The reply when no test says otherwise: `#demo` directives as the demo model takes them, else a
text about itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from evenflow.fargate_handler.token_sources.demo.script import (
    Script,
    directed_script,
    is_directive,
    split_tokens,
)
from evenflow.stream_core.base.errors import ModelRefused
from tests.integration.aws_models.events import (
    MESSAGE_START,
    bedrock_end,
    chat_chunk,
    chat_usage,
    exception,
    json_lines,
    payload_part,
    sse,
    text_delta,
)
from tests.integration.aws_models.reply import EVENT_STREAM, Ending, Reply, refuses

# About what Bedrock was measured to do: 20 events a second after some hundred milliseconds.
_FIRST_MS, _GAP_MS = 300.0, 50.0
_TEXT = (
    "I am a stand-in for {service}, running on your machine: {model} was asked, and nothing left "
    "for AWS. What you read came as the events that the real service sends, through the real SDK, "
    "in about twenty pieces a second, and went through the same log, the same cursors and the "
    "same socket as any answer. Your question had {words} words. Close this tab in the middle and "
    "come back: the text goes on where you left it. Press stop, and the connection to the model "
    "is closed at once, which is what ends the bill."
)


def demo_script(service: str, model: str, question: str) -> Script:
    """Tokens and their timing. Each call is a first attempt to `fail_attempts`.

    Raises:
        ModelRefused: the question asks for it.
    """
    if is_directive(question):
        return directed_script(question, 1)
    text = _TEXT.format(service=service, model=model, words=len(question.split()))
    return Script(split_tokens(text), _FIRST_MS, iter(lambda: _GAP_MS, None))


def bedrock_demo(model: str, question: str) -> Reply:
    """What Bedrock answers."""
    try:
        script = demo_script("Bedrock", model, question)
    except ModelRefused as refused:
        return refuses(400, "ValidationException", refused.message)
    return Reply(
        _bedrock_pieces(script, len(question.split())),
        200,
        {"Content-Type": EVENT_STREAM},
        _then(script),
    )


def sagemaker_demo(endpoint: str, question: str) -> Reply:
    """What a SageMaker endpoint answers: vLLM's server-sent events, or JSON lines where its name
    begins with `lmi`.
    """
    try:
        script = demo_script("SageMaker", endpoint, question)
    except ModelRefused as refused:
        return refuses(
            424, "ModelError", "", OriginalStatusCode=400, OriginalMessage=refused.message
        )
    lines = endpoint.startswith("lmi")
    headers = {
        "Content-Type": EVENT_STREAM,
        "X-Amzn-SageMaker-Content-Type": "application/jsonlines" if lines else "text/event-stream",
        "x-Amzn-Invoked-Production-Variant": "AllTraffic",
    }
    return Reply(
        _sagemaker_pieces(script, lines, len(question.split())), 200, headers, _then(script)
    )


def _then(script: Script) -> Ending:
    return "silence" if script.hangs else "end"


def _timed(script: Script) -> Iterator[tuple[float, str]]:
    wait = script.first_token_ms / 1000
    for token in script.tokens[: script.stops_after]:
        yield wait, token
        wait = next(script.gaps_ms) / 1000


def _bedrock_pieces(script: Script, words: int) -> Iterator[tuple[float, bytes]]:
    yield 0, MESSAGE_START
    for wait, token in _timed(script):
        yield wait, text_delta(token)
    if script.failure:
        yield 0, exception("modelStreamErrorException", script.failure.message)
    elif not script.hangs:
        yield 0, bedrock_end(prompt_tokens=words, completion_tokens=len(script.tokens))


def _sagemaker_pieces(script: Script, lines: bool, words: int) -> Iterator[tuple[float, bytes]]:
    written, random, rest = (json_lines if lines else sse), Random(len(script.tokens)), b""
    for wait, token in _timed(script):
        # Some bytes of each chunk come with the next one, so that parts end in the middle of lines
        # and of characters.
        whole = rest + written(chat_chunk(token))
        cut = random.randint(1, len(whole))
        yield wait, payload_part(whole[:cut])
        rest = whole[cut:]
    if script.failure:
        yield 0, exception("ModelStreamError", script.failure.message, ErrorCode="StreamBroken")
    elif not script.hangs:
        end = written(
            chat_chunk(finish_reason="stop"), chat_usage(words, len(script.tokens)), "[DONE]"
        )
        yield 0, payload_part(rest + end)
    elif rest:
        yield 0, payload_part(rest)
