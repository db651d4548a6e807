"""Finds an answer's finish reason, for protocols in which pending calls are a finish reason."""

from __future__ import annotations

from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Part, PartKind
from evenflow.stream_core.log.response_log import slice_of

_BY_ITSELF = ("stop", "tool_calls")


def pending_calls(stream: ResponseStream) -> list[str]:
    """The ids of the calls without a result, which the client has to run."""
    parts = [part for part in slice_of(stream.log.entries, 0).current if isinstance(part, Part)]
    answered = {part.id for part in parts if part.kind is PartKind.RESULT}
    calls = (part for part in parts if part.kind is PartKind.CALL and not part.choice)
    return [call.id for call in calls if call.id not in answered]


def end_by_calls(stream: ResponseStream) -> str:
    """The finish reason of an answer. One with pending calls ends with `tool_calls`.

    Many model servers send `stop` after calls. Some send `tool_calls` where none is pending.
    """
    reason = stream.finish_reason or "stop"
    if reason not in _BY_ITSELF:
        return reason
    return "tool_calls" if pending_calls(stream) else "stop"
