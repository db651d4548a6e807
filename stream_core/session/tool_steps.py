"""Reads the steps of an answer whose tools its client runs from its log.

A step is one request to the model: its output, its calls of tools, and a result for each of these
calls. The log has all of it, so a node that takes the answer over continues after the last step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from evenflow.stream_core.log.entries import (
    CALL_EXTRA,
    Content,
    LogEntry,
    Part,
    PartKind,
    has_only_fields,
    is_returned,
)
from evenflow.stream_core.log.response_log import slice_of
from evenflow.stream_core.log.returned_fields import (
    Fields,
    fields_of,
    join_fields,
    without_standard_fields,
)
from evenflow.stream_core.session.conversation import ToolCall, Turn

CANCELLED_CALL = "This call was cancelled."
"""The result of a call that the client cancels."""


@dataclass(frozen=True, slots=True)
class ToolSteps:
    """The steps of an answer so far.

    Args:
        turns: the turns of the completed steps (all their calls have results), for the model.
        last_index: the last index of these steps, -1 without any. They are not replaced.
        open_calls: the calls without a result, by their ids.
        answered: the ids of the calls with a result.
        awaits_results: whether the last step ends with its calls. Otherwise the model was
            interrupted during it, or has not begun it.
        next_call: the number of the next step's first call.
    """

    turns: tuple[Turn, ...]
    last_index: int
    open_calls: dict[str, ToolCall]
    answered: frozenset[str]
    awaits_results: bool
    next_call: int


def tool_steps(entries: Sequence[LogEntry]) -> ToolSteps:
    """Read the steps in a log. Its calls must have different ids."""
    step, turns, answered, last_index, next_call = _Step(), list[Turn](), set[str](), -1, 0
    last: Content | None = None
    for index, content in slice_of(entries, 0).contents:
        if not (isinstance(content, Part) and has_only_fields(content)):
            last = content
        step.add(content)
        if isinstance(content, Part) and content.kind is PartKind.RESULT:
            answered.add(content.id)
            if step.calls and not step.open_calls:
                turns += step.turns
                next_call = max(step.calls, default=next_call - 1) + 1
                step, last_index = _Step(), index
    ends_with_calls = isinstance(last, Part) and last.kind in (PartKind.CALL_END, PartKind.RESULT)
    return ToolSteps(
        tuple(turns),
        last_index,
        step.open_calls,
        frozenset(answered),
        ends_with_calls and bool(step.open_calls),
        next_call,
    )


@dataclass(slots=True)
class _StepCall:
    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Thought:
    """A reasoning: the server's field, its detail, and its text in pieces."""

    field: str
    detail: str
    pieces: list[str]


@dataclass(slots=True)
class _Step:
    """The output of one request to the model, with the results so far.

    Args:
        returned: reasoning and fields that the server needs back, in the order of arrival.
        call_fields: the same for the calls, by their numbers. They may precede their call.
    """

    text: list[str] = field(default_factory=list)
    returned: list[_Thought | Fields] = field(default_factory=list)
    call_fields: dict[int, Fields] = field(default_factory=dict)
    calls: dict[int, _StepCall] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)

    def add(self, content: Content) -> None:
        """Add the next content of the log."""
        if isinstance(content, str):
            self.text.append(content)
        elif content.kind is PartKind.REASONING and content.name:
            self._think(content)
        elif is_returned(content):
            fields: Fields = orjson.loads(content.text)
            if content.name == CALL_EXTRA:
                known = self.call_fields.get(content.call, {})
                self.call_fields[content.call] = join_fields(known, fields)
            else:
                self.returned.append(without_standard_fields(fields))
        elif content.kind is PartKind.CALL:
            self.calls[content.call] = _StepCall(content.id, content.name)
        elif content.kind is PartKind.ARGUMENTS and content.call in self.calls:
            self.calls[content.call].arguments.append(content.text)
        elif content.kind is PartKind.RESULT:
            self.results[content.id] = content.text

    @property
    def open_calls(self) -> dict[str, ToolCall]:
        """The calls without a result."""
        return {call.id: call for call in self._made if call.id not in self.results}

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The model's turn and those of the tools. Reasoning goes back in its original field."""
        extra: Fields = {}
        for item in self.returned:
            if isinstance(item, _Thought):
                reasoning = {"field": item.field, "detail": item.detail}
                extra = join_fields(extra, fields_of(reasoning, "".join(item.pieces)))
            else:
                extra = join_fields(extra, item)
        return (
            Turn("assistant", "".join(self.text), tuple(self._made), extra=extra),
            *(Turn("tool", self.results[call.id], tool_call_id=call.id) for call in self._made),
        )

    def _think(self, part: Part) -> None:
        last = self.returned[-1] if self.returned else None
        if isinstance(last, _Thought) and (last.field, last.detail) == (part.name, part.id):
            last.pieces.append(part.text)
        else:
            self.returned.append(_Thought(part.name, part.id, [part.text]))

    @property
    def _made(self) -> list[ToolCall]:
        return [
            ToolCall(call.id, call.name, "".join(call.arguments), self.call_fields.get(number, {}))
            for number, call in self.calls.items()
        ]
