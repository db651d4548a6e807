"""Reads the chunks of an OpenAI-style answer, over any transport."""

from __future__ import annotations

from typing import Any

import orjson

from evenflow.fargate_handler.token_sources.answer_parts import AnswerParts, cited
from evenflow.fargate_handler.token_sources.error_objects import error_in
from evenflow.fargate_handler.token_sources.openai_failures import Failures
from evenflow.fargate_handler.token_sources.port import ModelEnd, ModelFinish, TokenSink
from evenflow.fargate_handler.token_sources.text_chunks import TextChunks
from evenflow.stream_core.protocol.errors import UpstreamFailed, UpstreamUnreadable
from evenflow.stream_core.protocol.messages import Usage

DONE = b"[DONE]"
# Tokens. Stores add the counts of a day up in 64 bits.
_MOST_COUNTED = 10**12
_REASONS: dict[str, ModelEnd] = {
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
}


class OpenAIAnswer:
    """Takes `chat.completion.chunk` objects, and pushes all that is in them into `sink`.

    Args:
        failures: the errors of the server.
        choices: how many were asked for. Others are left out.
    """

    def __init__(self, sink: TokenSink, failures: Failures, *, choices: int = 1) -> None:
        self._sink = sink
        self._failures = failures
        self._choices = choices
        self._parts = AnswerParts(sink)
        self._text_chunks = TextChunks()
        self._reason: str | None = None
        self._usage: Usage | None = None

    def take(self, data: bytes) -> None:
        """Take one chunk.

        Raises:
            UpstreamFailed: it is not a chunk, or says that the server failed.
            ModelRefused: it says that the server refuses the message.
        """
        before = self._parts.pushed
        try:
            text = self._text_chunks.text(data)
            if not text:
                self._parse(data)
        except (
            orjson.JSONDecodeError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as wrong:
            raise UpstreamUnreadable(
                "the model's server sent something that is not a chunk; what came before was kept",
                code="upstream_failed",
            ) from wrong
        if text:
            # Nearly every chunk is like this.
            if self._parts.calling:
                self._parts.end_call(0)
            self._sink.push(text)
        elif self._parts.pushed == before:
            self._sink.alive()

    def _parse(self, data: bytes) -> None:
        chunk = orjson.loads(data)
        self._read(chunk)
        if (error := error_in(chunk)) is not None:
            raise self._failures.in_stream(error)
        self._text_chunks.learn(data, chunk)

    def _read(self, chunk: dict[str, Any]) -> None:
        # Servers differ in what they leave out or set to null.
        self._usage = _usage(chunk.get("usage") or {}) or self._usage
        for place, choice in enumerate(chunk.get("choices") or []):
            index = _number(choice, place)
            if index >= self._choices:
                continue
            if index == 0:
                self._reason = choice.get("finish_reason") or self._reason
            self._parts.choice(choice, index)
        for source in cited(chunk):
            self._parts.source(source)
        self._parts.event(chunk.get("event"))

    def finish(self) -> ModelFinish:
        """Take the end of the stream. Returns how the model ended.

        Raises:
            UpstreamFailed: the stream broke off before the model had finished.
        """
        if self._reason is None:
            raise UpstreamFailed(
                "the model's server broke off in the middle of its answer; what came before was "
                "kept",
                code="upstream_failed",
            )
        self._parts.finish()
        return ModelFinish(_REASONS.get(self._reason, "stop"), self._usage)


def _number(choice: dict[str, Any], place: int) -> int:
    """A choice's number. Some servers leave it out, as if it were its place in the chunk.

    Raises:
        ValueError: it is not a number.
    """
    index = choice.get("index")
    if index is None:
        return place
    if not isinstance(index, int) or index < 0:
        raise ValueError("this is not the number of a choice")
    return index


def _usage(counted: dict[str, Any]) -> Usage | None:
    prompt, completion = _count(counted, "prompt_tokens"), _count(counted, "completion_tokens")
    if prompt is None or completion is None:
        return None
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=_detail(counted, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=_detail(counted, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(counted: dict[str, Any], details: str, name: str) -> int | None:
    found = counted.get(details)
    return _count(found, name) if isinstance(found, dict) else None


def _count(counted: dict[str, Any], name: str) -> int | None:
    """A count. None if it is not one: a wrong count must not lose the answer."""
    number = counted.get(name)
    return number if isinstance(number, int) and 0 <= number <= _MOST_COUNTED else None
