"""Collects the results of the tools that an answer's client runs."""

from __future__ import annotations

import asyncio

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import Conflict
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Part, PartKind
from evenflow.stream_core.log.response_log import ResponseLog
from evenflow.stream_core.session.tool_steps import ToolSteps, tool_steps

# Requests to the model for one answer. Without a limit a model could call tools without end.
_MOST_STEPS = 32


class ClientTools:
    """Waits for the results of an answer's tool calls.

    Args:
        stream: the answer. Its log has the calls, and receives the results.
    """

    def __init__(self, stream: ResponseStream) -> None:
        self._stream = stream
        # Results that came while the model still writes: until its end it alone writes the log.
        self._early: dict[str, str] = {}
        self._all_received: asyncio.Future[bool] | None = None
        self._usage: Usage | None = None
        self._has_usage = False

    @property
    def steps(self) -> ToolSteps:
        """The steps so far."""
        return tool_steps(self._stream.log.entries)

    @property
    def may_continue(self) -> bool:
        """Whether calls are open, and the model may be called once more."""
        steps = self.steps
        made = sum(turn.role == "assistant" for turn in steps.turns)
        return bool(steps.open_calls) and made < _MOST_STEPS

    def count(self, usage: Usage | None) -> Usage | None:
        """Add the tokens of one more step. Returns the sum, or None if one step's are unknown."""
        if self._has_usage and usage is not None:
            usage = self._usage and self._usage.plus(usage)
        self._usage, self._has_usage = usage, True
        return usage

    def add(self, call_id: str, text: str) -> None:
        """Add the result of a call. Another one for the same call changes nothing.

        Raises:
            Conflict: the call is not open.
        """
        steps = self.steps
        if call_id in steps.answered or call_id in self._early:
            return
        if call_id not in steps.open_calls:
            raise call_not_open(call_id)
        self._early[call_id] = text
        if self._all_received is not None:
            self._put_into_log()

    def drop_early(self) -> None:
        """Drop the results for calls of a failed attempt."""
        self._early.clear()

    async def results(self) -> bool:
        """Wait until each call has a result. Returns False after `give_up`."""
        self._all_received = asyncio.get_running_loop().create_future()
        try:
            self._put_into_log()
            return await self._all_received
        finally:
            self._all_received = None

    def give_up(self) -> None:
        """Stop waiting."""
        if self._all_received is not None and not self._all_received.done():
            self._all_received.set_result(False)

    def _put_into_log(self) -> None:
        open_calls = self.steps.open_calls
        for call_id, text in self._early.items():
            call = open_calls.pop(call_id, None)
            if call is not None:
                self._stream.add_result(Part(PartKind.RESULT, text, id=call_id, name=call.name))
        self._early.clear()
        if not open_calls and self._all_received is not None and not self._all_received.done():
            self._all_received.set_result(True)


def check_answered(log: ResponseLog, call_id: str) -> None:
    """Check that a call of an ended answer has a result.

    Raises:
        Conflict: it has none, and can get none any more.
    """
    if call_id not in tool_steps(log.entries).answered:
        raise call_not_open(call_id)


def call_not_open(call_id: str) -> Conflict:
    """The error for a result whose call is not open."""
    return Conflict(
        f"the call {call_id[:100]!r} waits for no result: this answer has no such call, or has "
        "ended; nothing was changed, resume the answer to see its calls",
        code="call_not_open",
        param="call_id",
    )
