"""Reads the events of ConverseStream as text, marks and an end."""

from __future__ import annotations

from typing import Any

from fargate_handler.token_sources.aws_client import Event
from fargate_handler.token_sources.aws_failures import NOT_READABLE, unreadable_event
from fargate_handler.token_sources.marked_answer import MarkedAnswer
from fargate_handler.token_sources.port import ModelEnd, ModelFinish, TokenSink
from stream_core.protocol.errors import UpstreamFailed
from stream_core.protocol.messages import Usage


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

    def told(self, event: Event) -> Event | None:
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


_CUT_SHORT = ("max_tokens", "model_context_window_exceeded")
_FILTERED = ("guardrail_intervened", "content_filtered")
_MALFORMED = ("malformed_model_output", "malformed_tool_use")


class BedrockAnswer:
    """Takes the events of ConverseStream, and pushes their text into `sink`.

    Args:
        marked: whether to push marked text, with reasoning and calls. Otherwise only the text.
    """

    def __init__(self, sink: TokenSink, *, marked: bool = False) -> None:
        self._sink = sink
        self._marked = MarkedAnswer() if marked else None
        self._called: dict[int, bool] = {}
        """The content blocks that are calls, in order, and whether they have arguments."""
        self._reason: str | None = None
        self._usage: Usage | None = None

    def take(self, event: Event) -> None:
        """Take one event.

        Raises:
            UpstreamFailed: it lacks a field.
        """
        try:
            text = self._read(event)
        except NOT_READABLE as wrong:
            raise unreadable_event() from wrong
        if text:
            self._sink.push(text)
        else:
            self._sink.alive()

    def _read(self, event: Event) -> str | None:
        if "contentBlockDelta" in event:
            block = event["contentBlockDelta"]
            if self._marked is not None and "toolUse" in block["delta"]:
                return self._call(
                    self._marked, block["contentBlockIndex"], block["delta"]["toolUse"]["input"]
                )
            return self._text(block["delta"])
        if self._marked is not None and "contentBlockStart" in event:
            return self._begin(self._marked, event["contentBlockStart"])
        if self._marked is not None and "contentBlockStop" in event:
            place = event["contentBlockStop"]["contentBlockIndex"]
            # A call without arguments has no deltas, but OpenAI's clients read its arguments as
            # JSON.
            return None if self._called.get(place, True) else self._call(self._marked, place, "{}")
        if "messageStop" in event:
            self._reason = event["messageStop"]["stopReason"]
        elif "metadata" in event:
            self._usage = _usage(event["metadata"]["usage"])
        return None

    def _text(self, delta: dict[str, Any]) -> str | None:
        # Citations, signatures and redacted parts are deltas, too, but not text of the answer.
        text = delta.get("text")
        if text is not None and not isinstance(text, str):
            raise TypeError("the delta is not text")
        if self._marked is None:
            return text
        reasoning = delta.get("reasoningContent", {}).get("text") or ""
        return self._marked.aside("reasoning_content", reasoning) + self._marked.text(text or "")

    def _begin(self, marked: MarkedAnswer, block: dict[str, Any]) -> str | None:
        use = block["start"].get("toolUse")
        if use is None:
            return None
        self._called[block["contentBlockIndex"]] = False
        return marked.fragment(len(self._called) - 1, use["toolUseId"], use["name"], "")

    def _call(self, marked: MarkedAnswer, place: int, arguments: str) -> str:
        index = list(self._called).index(place)
        self._called[place] = self._called[place] or bool(arguments)
        return marked.fragment(index, "", "", arguments)

    def finish(self) -> ModelFinish:
        """Take the end of the stream. Returns how the model ended.

        Raises:
            UpstreamFailed: the model had not finished, or its output is malformed.
        """
        if self._reason is None or self._reason in _MALFORMED:
            raise UpstreamFailed(
                "the model broke off in the middle of its answer; what came before was kept",
                code="upstream_failed",
            )
        if self._reason in _FILTERED:
            return ModelFinish("content_filter", self._usage)
        reason: ModelEnd = "length" if self._reason in _CUT_SHORT else "stop"
        if self._reason == "tool_use" and self._marked is not None:
            reason = "tool_calls"
        return ModelFinish(reason, self._usage)


def _usage(counted: dict[str, Any]) -> Usage:
    # `inputTokens` excludes the cached ones. OpenAI's `prompt_tokens` are all.
    read = counted.get("cacheReadInputTokens")
    besides = (read or 0) + (counted.get("cacheWriteInputTokens") or 0)
    return Usage(
        prompt_tokens=counted["inputTokens"] + besides,
        completion_tokens=counted["outputTokens"],
        cached_tokens=read,
    )
