"""Reads the chunks of an OpenAI-style answer, over any transport."""

from __future__ import annotations

from typing import Any

import orjson

from fargate_handler.token_sources.marked_answer import MarkedAnswer, asides, text_of
from fargate_handler.token_sources.openai_failures import Failures
from fargate_handler.token_sources.port import ModelEnd, ModelFinish, TokenSink
from fargate_handler.token_sources.text_chunks import TextChunks
from stream_core.protocol.errors import UpstreamFailed
from stream_core.protocol.messages import Usage

DONE = b"[DONE]"


class OpenAIAnswer:
    """Takes `chat.completion.chunk` objects, and pushes their text into `sink`.

    Args:
        failures: the errors of the server.
        marked: whether to push marked text, with everything in the chunks. Otherwise only the text,
            or that of a refusal, of the first choice.
        choices: how many were asked for. Others are left out.
    """

    def __init__(
        self, sink: TokenSink, failures: Failures, *, marked: bool = False, choices: int = 1
    ) -> None:
        self._sink = sink
        self._failures = failures
        self._choices = choices
        self._marked = MarkedAnswer() if marked else None
        self._text_chunks = TextChunks()
        self._refused = False
        self._reason: str | None = None
        self._usage: Usage | None = None

    def take(self, data: bytes) -> None:
        """Take one chunk.

        Raises:
            UpstreamFailed: it is not a chunk, or says that the server failed.
            ModelRefused: it says that the server refuses the message.
        """
        try:
            text = self._text_chunks.text(data)
            if text:
                # Nearly every chunk is like this.
                if self._marked is not None:
                    text = self._marked.text(text)
            else:
                text = self._parsed(data)
        except (
            orjson.JSONDecodeError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as wrong:
            raise UpstreamFailed(
                "the model's server sent something that is not a chunk; what came before was kept",
                code="upstream_failed",
            ) from wrong
        if text:
            self._sink.push(text)
        else:
            self._sink.alive()

    def _parsed(self, data: bytes) -> str:
        chunk = orjson.loads(data)
        text = self._read(chunk)
        if chunk.get("error"):
            raise self._failures.in_stream(chunk["error"])
        if text:
            self._text_chunks.learn(data, chunk)
        return text

    def _read(self, chunk: dict[str, Any]) -> str:
        # Servers differ in what they leave out or set to null.
        self._usage = _usage(chunk.get("usage") or {}) or self._usage
        said = []
        for place, choice in enumerate(chunk.get("choices") or []):
            index = _number(choice, place)
            if index >= self._choices:
                continue
            if index == 0:
                self._reason = choice.get("finish_reason") or self._reason
            if self._marked is not None:
                said.append(self._marked.choice(choice, index))
            elif index == 0:
                said.append(self._text(choice.get("delta") or {}))
        return "".join(said)

    def _text(self, delta: dict[str, Any]) -> str:
        """The text for readers of text only. A refusal is text, and the reason of the end."""
        refusal = asides(delta).get("refusal", "")
        self._refused = self._refused or bool(refusal)
        return text_of(delta, "content") + refusal

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
        known: dict[str, ModelEnd] = {"length": "length", "content_filter": "content_filter"}
        if self._marked is not None:
            known["tool_calls"] = "tool_calls"
        reason = "content_filter" if self._refused else known.get(self._reason, "stop")
        return ModelFinish(reason, self._usage)


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
    return number if isinstance(number, int) and number >= 0 else None
