"""Reads the events of ConverseStream as text, parts and an end."""

from __future__ import annotations

import base64
from typing import Any

from evenflow.fargate_handler.token_sources.answer_parts import AnswerParts
from evenflow.fargate_handler.token_sources.aws_client import NOT_READABLE, Event, unreadable_event
from evenflow.fargate_handler.token_sources.chunk_fields import cache_written, checked_usage
from evenflow.fargate_handler.token_sources.finish_reasons import model_end
from evenflow.fargate_handler.token_sources.port import ModelFinish, TokenSink
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.log.entries import PartKind
from evenflow.stream_core.log.returned_fields import detail_of

DETAILS = "reasoning_details"
"""The field in which reasoning goes back to Bedrock. Its entries have OpenRouter's form."""


class AnswerTool:
    """Rewrites events as if the arguments of the answer's tool were the model's text.

    Other text is left out, since it is not JSON. Calls of other tools stay calls.

    Args:
        name: the tool's name. None: the answer is text, and nothing is rewritten.
    """

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._blocks: set[int] = set()
        self._calls_others = False

    def rewrite(self, event: Event) -> Event | None:
        """The rewritten event. None if nothing is left of it.

        Raises:
            UpstreamFailed: it lacks a field.
        """
        if self._name is None:
            return event
        try:
            return self._rewritten(event)
        except NOT_READABLE as wrong:
            raise unreadable_event() from wrong

    def _rewritten(self, event: Event) -> Event | None:
        match event:
            case {
                "contentBlockStart": {
                    "contentBlockIndex": int(place),
                    "start": {"toolUse": {"name": name}},
                }
            }:
                if name != self._name:
                    self._calls_others = True
                    return event
                self._blocks.add(place)
                return None
            case {"contentBlockDelta": {"contentBlockIndex": int(place), "delta": delta}}:
                if place in self._blocks:
                    return _text(place, delta["toolUse"]["input"])
                return None if "text" in delta else event
            case {"messageStop": {"stopReason": "tool_use"}} if (
                self._blocks and not self._calls_others
            ):
                return {"messageStop": {"stopReason": "end_turn"}}
        return event


def _text(place: int, text: Any) -> Event:
    return {"contentBlockDelta": {"contentBlockIndex": place, "delta": {"text": text}}}


class BedrockAnswer:
    """Converts the events of ConverseStream into text and parts, and pushes them into `sink`."""

    def __init__(self, sink: TokenSink) -> None:
        self._sink = sink
        self._parts = AnswerParts(sink)
        self._has_arguments: dict[int, bool] = {}
        """By the content blocks that are calls, in order: whether they have arguments."""
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._cache_written_tokens = 0

    def take(self, event: Event) -> None:
        """Take one event.

        Raises:
            UpstreamFailed: it lacks a field.
        """
        pushed_before = self._parts.pushed
        try:
            self._read(event)
        except NOT_READABLE as wrong:
            raise unreadable_event() from wrong
        if self._parts.pushed == pushed_before:
            self._sink.alive()

    def _read(self, event: Event) -> None:
        if "contentBlockDelta" in event:
            block = event["contentBlockDelta"]
            if "toolUse" in block["delta"]:
                self._more(block["contentBlockIndex"], block["delta"]["toolUse"]["input"])
            else:
                if reasoning := block["delta"].get("reasoningContent"):
                    self._think(reasoning, block["contentBlockIndex"])
                self._delta(block["delta"])
        elif "contentBlockStart" in event:
            self._begin(event["contentBlockStart"])
        elif "contentBlockStop" in event:
            self._end(event["contentBlockStop"]["contentBlockIndex"])
        elif "messageStop" in event:
            self._reason = event["messageStop"]["stopReason"]
        elif "metadata" in event:
            usage = event["metadata"]["usage"]
            self._usage = _usage(usage)
            self._cache_written_tokens = cache_written(
                usage.get("cacheWriteInputTokens"), self._usage
            )

    def _delta(self, delta: dict[str, Any]) -> None:
        text = delta.get("text")
        if text is not None and not isinstance(text, str):
            raise TypeError("the delta is not text")
        self._parts.text(text or "")
        if citation := delta.get("citation"):
            web = citation.get("location", {}).get("web", {})
            url = web.get("url") or citation.get("source")
            self._parts.source({"url": url, "title": citation.get("title")})

    def _think(self, reasoning: dict[str, Any], index: int) -> None:
        """Push reasoning. Its signature or encrypted part must go back with the next request."""
        entry = {"type": "reasoning.text", "index": index, "format": "bedrock"}
        detail = detail_of(DETAILS, entry, "text")
        self._parts.delta(
            PartKind.REASONING, reasoning.get("text") or "", name="reasoning_content", detail=detail
        )
        if signature := reasoning.get("signature"):
            self._parts.returned({DETAILS: [entry | {"signature": signature}]})
        if encrypted := reasoning.get("redactedContent"):
            data = base64.b64encode(encrypted).decode()
            self._parts.returned({DETAILS: [entry | {"type": "reasoning.encrypted", "data": data}]})

    def _begin(self, block: dict[str, Any]) -> None:
        use = block["start"].get("toolUse")
        if use is not None:
            if not use["name"]:
                raise ValueError("a call without a name")
            self._has_arguments[block["contentBlockIndex"]] = False
            self._parts.fragment(len(self._has_arguments) - 1, use["toolUseId"], use["name"], "")

    def _more(self, place: int, arguments: str) -> None:
        index = list(self._has_arguments).index(place)
        self._has_arguments[place] = self._has_arguments[place] or bool(arguments)
        self._parts.fragment(index, "", "", arguments)

    def _end(self, place: int) -> None:
        if place not in self._has_arguments:
            return
        # A call without arguments has no deltas, but its arguments are read as JSON.
        if not self._has_arguments[place]:
            self._more(place, "{}")
        self._parts.end_call(0)

    def finish(self) -> ModelFinish:
        """Take the end of the stream. Returns how the model ended.

        Raises:
            UpstreamFailed: the model had not finished, or its output is malformed.
        """
        if self._reason is None:
            raise UpstreamFailed(
                "the model broke off in the middle of its answer; what came before was kept",
                code="upstream_failed",
            )
        self._parts.finish()
        return ModelFinish(model_end(self._reason), self._usage, self._cache_written_tokens)


def _usage(usage: dict[str, Any]) -> Usage | None:
    # `inputTokens` excludes the cached ones. OpenAI's `prompt_tokens` are all.
    cached_tokens = usage.get("cacheReadInputTokens")
    prompt_counts: list[Any] = [usage.get("inputTokens"), cached_tokens or 0]
    prompt_counts.append(usage.get("cacheWriteInputTokens") or 0)
    if not all(isinstance(count, int) and count >= 0 for count in prompt_counts):
        return None
    return checked_usage(sum(prompt_counts), usage.get("outputTokens"), cached=cached_tokens)
