"""A token source that does only what a test tells it to, and counts how often each of its calls
was closed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from evenflow.stream_core.log.entries import Content


@dataclass
class SourceCall:
    """One call of `generate`, as seen from the model's side."""

    request: ModelRequest
    sink: TokenSink
    end: asyncio.Future[ModelFinish]
    opened: int = 0
    closed: int = 0
    pushed: list[Content] = field(default_factory=list)

    def push(self, *contents: Content) -> None:
        """Contents come; what the sink refuses ends the call, as in a real source."""
        for content in contents:
            try:
                if isinstance(content, str):
                    self.sink.push(content)
                else:
                    self.sink.push_part(content)
            except Exception as refused:
                self.fail(refused)
                return
            self.pushed.append(content)

    def finish(self) -> None:
        """The model ends by itself."""
        if not self.end.done():
            self.end.set_result(ModelFinish("stop", None))

    def fail(self, error: Exception) -> None:
        """The model breaks off."""
        if not self.end.done():
            self.end.set_exception(error)


class ControlledSource:
    """See `TokenSource`.

    Args:
        close_steps: for how many turns of the loop an ended call still takes to close.
        on_cancel: what a cancelled call ends with instead of the cancellation.
        continues: see `TokenSource`.
    """

    def __init__(
        self,
        close_steps: int = 0,
        on_cancel: Exception | ModelFinish | None = None,
        *,
        continues: bool = False,
    ) -> None:
        self.continues = continues
        self.may_close = asyncio.Event()
        """Cleared, calls that have ended wait before they are closed."""
        self.may_close.set()
        self.calls: list[SourceCall] = []
        self._close_steps = close_steps
        self._on_cancel = on_cancel

    @property
    def open_calls(self) -> int:
        """How many models run."""
        return sum(call.opened - call.closed for call in self.calls)

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """See `TokenSource.generate`."""
        call = SourceCall(request, sink, asyncio.get_running_loop().create_future())
        self.calls.append(call)
        call.opened += 1
        try:
            return await call.end
        except asyncio.CancelledError:
            if isinstance(self._on_cancel, ModelFinish):
                return self._on_cancel
            raise self._on_cancel or asyncio.CancelledError from None
        finally:
            try:
                for _ in range(self._close_steps):
                    await asyncio.sleep(0)
                await self.may_close.wait()
            finally:
                call.closed += 1

    async def close(self) -> None:
        """Nothing to release."""
