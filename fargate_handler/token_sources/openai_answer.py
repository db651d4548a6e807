"""Reads the chunks of an OpenAI-style answer, over any transport."""

from __future__ import annotations

from typing import Any

import orjson

from evenflow.fargate_handler.token_sources.answer_parts import AnswerParts, cited
from evenflow.fargate_handler.token_sources.finish_reasons import is_failure, model_end
from evenflow.fargate_handler.token_sources.openai_failures import Failures
from evenflow.fargate_handler.token_sources.port import ModelFinish, TokenSink
from evenflow.fargate_handler.token_sources.text_chunks import TextChunks
from evenflow.fargate_handler.token_sources.usage_counts import checked_usage
from evenflow.stream_core.protocol.errors import (
    UpstreamFailed,
    UpstreamRejected,
    UpstreamUnreadable,
)
from evenflow.stream_core.protocol.messages import Usage

DONE = b"[DONE]"


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
        if chunk.get("error"):
            raise self._failures.in_stream(chunk["error"])
        self._text_chunks.learn(data, chunk)

    def _read(self, chunk: dict[str, Any]) -> None:
        # Servers differ in what they leave out or set to null.
        self._usage = _usage(chunk.get("usage") or {}) or self._usage
        for place, choice in enumerate(chunk.get("choices") or []):
            index = _number(choice, place)
            if index >= self._choices:
                continue
            self._end(index, choice.get("finish_reason"))
            self._parts.choice(choice, index)
        for source in cited(chunk):
            self._parts.source(source)
        self._parts.event(chunk.get("event"))

    def _end(self, index: int, reason: object) -> None:
        """A choice ended. The first one says how the answer ended, unless a later one failed."""
        if not reason or (self._reason is not None and is_failure(self._reason)):
            return
        if index == 0 or is_failure(str(reason)):
            self._reason = str(reason)

    def finish(self) -> ModelFinish:
        """Take the end of the stream. Returns how the model ended.

        Raises:
            UpstreamFailed: the stream broke off before the model had finished, or says that it
                failed.
        """
        if self._reason is None:
            raise UpstreamFailed(
                "the model's server broke off in the middle of its answer; what came before was "
                "kept",
                code="upstream_failed",
            )
        self._parts.finish()
        if self._parts.left_out and not self._parts.pushed:
            raise UpstreamRejected(
                f"the model answered with {', '.join(sorted(self._parts.left_out))} alone, which "
                "is not carried here; ask a model that answers with text",
                code="upstream_failed",
            )
        return ModelFinish(model_end(self._reason), self._usage)


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
    return checked_usage(
        counted.get("prompt_tokens"),
        counted.get("completion_tokens"),
        cached=_detail(counted, "prompt_tokens_details", "cached_tokens"),
        reasoning=_detail(counted, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(counted: dict[str, Any], details: str, name: str) -> object:
    found = counted.get(details)
    return found.get(name) if isinstance(found, dict) else None
