"""What the chunks of one OpenAI-style answer add up to, whoever transports them."""

from __future__ import annotations

from typing import Any

import orjson

from fargate_handler.token_sources.called_tools import CalledTools
from fargate_handler.token_sources.port import ModelEnd, ModelFinish, TokenSink
from stream_core.errors import UpstreamFailed
from stream_core.messages import Usage

DONE = b"[DONE]"


class OpenAIAnswer:
    """Takes `chat.completion.chunk` objects and pushes their text into `sink`.

    Args:
        tools: whether the request has tools; else calls are no part of the answer.
    """

    def __init__(self, sink: TokenSink, *, tools: bool = False) -> None:
        self._sink = sink
        self._tools = CalledTools() if tools else None
        self._reason: str | None = None
        self._usage: Usage | None = None

    def take(self, data: bytes) -> None:
        """One chunk.

        Raises:
            UpstreamFailed: it is an error, or no chunk at all.
        """
        try:
            chunk = orjson.loads(data)
            text = self._read(chunk)
        except (orjson.JSONDecodeError, AttributeError, LookupError, TypeError, ValueError) as wrong:
            raise UpstreamFailed(
                "the model's server sent something that is no chunk; what came before was kept", code="upstream_failed"
            ) from wrong
        if chunk.get("error"):
            raise UpstreamFailed(
                f"the model's server ended with an error: {error_message(chunk['error'])}; what came before was kept",
                code="upstream_failed",
            )
        if text:
            self._sink.push(text)
        else:
            self._sink.alive()

    def _read(self, chunk: dict[str, Any]) -> str | None:
        # Servers differ in what they leave out or set to null.
        usage = chunk.get("usage") or {}
        if "prompt_tokens" in usage and "completion_tokens" in usage:
            self._usage = Usage(prompt_tokens=usage["prompt_tokens"], completion_tokens=usage["completion_tokens"])
        choices = chunk.get("choices")
        if not choices:
            return None
        self._reason = choices[0].get("finish_reason") or self._reason
        delta = choices[0].get("delta") or {}
        text = delta.get("content")
        if text is not None and not isinstance(text, str):
            raise TypeError("content is not text")
        if self._tools is None:
            return text
        return self._tools.text(text or "") + self._called(self._tools, delta.get("tool_calls") or [])

    def _called(self, tools: CalledTools, fragments: list[dict[str, Any]]) -> str:
        parts = []
        for fragment in fragments:
            function = fragment.get("function") or {}
            parts.append(
                tools.fragment(
                    fragment.get("index"),
                    fragment.get("id") or "",
                    function.get("name") or "",
                    function.get("arguments") or "",
                )
            )
        return "".join(parts)

    def finish(self) -> ModelFinish:
        """The end of the stream.

        Raises:
            UpstreamFailed: the stream broke off before the model had finished.
        """
        if self._reason is None:
            raise UpstreamFailed(
                "the model's server broke off in the middle of its answer; what came before was kept",
                code="upstream_failed",
            )
        known: dict[str, ModelEnd] = {"length": "length", "content_filter": "content_filter"}
        if self._tools is not None:
            known["tool_calls"] = "tool_calls"
        reason = known.get(self._reason, "stop")
        return ModelFinish(reason, self._usage)


def error_message(error: object) -> str:
    """What an OpenAI-style error says, at most 200 characters of it."""
    return str(error.get("message", error))[:200] if isinstance(error, dict) else str(error)[:200]
