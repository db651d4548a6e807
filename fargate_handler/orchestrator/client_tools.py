"""The tools of an answer that its client runs: the results of their calls, and how long to wait."""

from __future__ import annotations

import asyncio

from evenflow.stream_core.log.entries import Kind, Part
from evenflow.stream_core.log.response_log import ResponseLog
from evenflow.stream_core.log.response_stream import ResponseStream
from evenflow.stream_core.log.tool_steps import ToolSteps, tool_steps
from evenflow.stream_core.protocol.errors import Conflict
from evenflow.stream_core.protocol.messages import Usage

# A model that calls without end is not asked again.
_MOST_STEPS = 32


class ClientTools:
    """Takes the results of an answer's calls, and waits for them.

    Args:
        stream: the answer. The log has its calls, and is given the results.
    """

    def __init__(self, stream: ResponseStream) -> None:
        self._stream = stream
        # Those that came while the model was still writing: the log is the model's until it ends.
        self._early: dict[str, str] = {}
        self._all_came: asyncio.Future[bool] | None = None
        self._usage: Usage | None = None
        self._has_usage = False

    @property
    def steps(self) -> ToolSteps:
        """The steps so far."""
        return tool_steps(self._stream.log.entries)

    @property
    def may_continue(self) -> bool:
        """Whether there are calls whose results the model may be given."""
        steps = self.steps
        made = sum(turn.role == "assistant" for turn in steps.turns)
        return bool(steps.open_calls) and made < _MOST_STEPS

    def count(self, usage: Usage | None) -> Usage | None:
        """Count the tokens of one more step. Returns those of all, None if one is not known."""
        if self._has_usage and usage is not None:
            usage = self._usage and self._usage.plus(usage)
        self._usage, self._has_usage = usage, True
        return usage

    def add(self, call_id: str, text: str) -> None:
        """Take the result of a call. A second one for the same call changes nothing.

        Raises:
            Conflict: the call is not open.
        """
        steps = self.steps
        if call_id in steps.answered or call_id in self._early:
            return
        if call_id not in steps.open_calls:
            raise call_not_open(call_id)
        self._early[call_id] = text
        if self._all_came is not None:
            self._put_into_log()

    def drop_early(self) -> None:
        """Forget what came for the calls of an attempt that has failed."""
        self._early.clear()

    async def results(self) -> bool:
        """Wait until each call has a result. Returns False after `give_up`."""
        self._all_came = asyncio.get_running_loop().create_future()
        try:
            self._put_into_log()
            return await self._all_came
        finally:
            self._all_came = None

    def give_up(self) -> None:
        """Wait no longer."""
        if self._all_came is not None and not self._all_came.done():
            self._all_came.set_result(False)

    def _put_into_log(self) -> None:
        open_calls = self.steps.open_calls
        for call_id, text in self._early.items():
            call = open_calls.pop(call_id, None)
            if call is not None:
                self._stream.add_result(Part(Kind.RESULT, text, id=call_id, name=call.name))
        self._early.clear()
        if not open_calls and self._all_came is not None and not self._all_came.done():
            self._all_came.set_result(True)


def check_answered(log: ResponseLog, call_id: str) -> None:
    """Check that a call of an answer that has ended has its result.

    Raises:
        Conflict: it has none, and never will.
    """
    if call_id not in tool_steps(log.entries).answered:
        raise call_not_open(call_id)


def call_not_open(call_id: str) -> Conflict:
    """The refusal of a result for a call that waits for none."""
    return Conflict(
        f"the call {call_id[:100]!r} waits for no result: this answer has no such call, or has "
        "ended and its calls with it; nothing was changed, resume the answer to see its calls",
        code="call_not_open",
        param="call_id",
    )
