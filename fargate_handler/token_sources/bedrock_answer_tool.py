"""A tool whose arguments are the answer: how a model on Bedrock answers in JSON of a schema."""

from __future__ import annotations

from typing import Any

from fargate_handler.token_sources.aws_client import Event
from fargate_handler.token_sources.aws_failures import NOT_READABLE, unreadable_event


class AnswerTool:
    """Rewrites the events of ConverseStream as if the model had said what it gave the tool as arguments.

    What it says beside that is no JSON, and left out. Calls of other tools are calls.

    Args:
        name: the tool's; None where the answer is text, and nothing is rewritten.
    """

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._blocks: set[int] = set()
        self._calls_others = False

    def told(self, event: Event) -> Event | None:
        """The event as it would be without the tool; None where nothing is left of it.

        Raises:
            UpstreamFailed: it lacks what it must have.
        """
        if self._name is None:
            return event
        try:
            return self._rewritten(event)
        except NOT_READABLE as wrong:
            raise unreadable_event() from wrong

    def _rewritten(self, event: Event) -> Event | None:
        match event:
            case {"contentBlockStart": {"contentBlockIndex": int(place), "start": {"toolUse": {"name": name}}}}:
                if name != self._name:
                    self._calls_others = True
                    return event
                self._blocks.add(place)
                return None
            case {"contentBlockDelta": {"contentBlockIndex": int(place), "delta": delta}}:
                if place in self._blocks:
                    return _text(place, delta["toolUse"]["input"])
                return None if "text" in delta else event
            case {"messageStop": {"stopReason": "tool_use"}} if self._blocks and not self._calls_others:
                return {"messageStop": {"stopReason": "end_turn"}}
        return event


def _text(place: int, text: Any) -> Event:
    return {"contentBlockDelta": {"contentBlockIndex": place, "delta": {"text": text}}}
