"""A worker's gRPC service, and the buffer of an answer for a slow handler."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import grpc

from evenflow.fargate_handler.inference.errors import status_of
from evenflow.fargate_handler.inference.llm_v1 import inference_pb2 as wire
from evenflow.fargate_handler.inference.llm_v1.inference_pb2_grpc import InferenceServicer
from evenflow.fargate_handler.inference.messages import event_messages, finish_message, request_of
from evenflow.fargate_handler.token_sources.port import ModelFinish, TokenSource
from evenflow.stream_core.base.errors import EvenflowError, InternalError, UpstreamFailed
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.base.trace_context import TRACEPARENT, known_traceparent
from evenflow.stream_core.delivery.response_stream import ResponseFull
from evenflow.stream_core.log.entries import Content, Part

if TYPE_CHECKING:
    from evenflow.fargate_handler.tracing.call_trace import CallTraces

_SIGN_OF_LIFE_SECONDS = 1.0


class TokenBuffer:
    """The `TokenSink` of one stream.

    Args:
        most_tokens: the model is paused at this number of buffered tokens. `take` returns at most
            as many.
        most_characters: the model is stopped at this number of buffered characters.
        monotonic: seconds.
    """

    def __init__(
        self,
        most_tokens: int,
        most_characters: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tokens_received = 0
        """The number of tokens from the model."""
        self._most_tokens = most_tokens
        self._most_characters = most_characters
        self._monotonic = monotonic
        self.on_first: Callable[[], None] | None = None
        """Called once, when there are the first tokens to send."""
        self._silent = True
        """Whether no sign of life is due."""
        self._last_sent_at = -_SIGN_OF_LIFE_SECONDS
        self._buffered: list[Content] = []
        self._characters = 0
        self._has_ended = False
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._buffered)

    @property
    def paused(self) -> bool:
        """Whether the model should not be read: the buffer is full."""
        return len(self._buffered) >= self._most_tokens

    def push(self, token: str) -> None:
        """Take a token.

        Raises:
            ResponseFull: the buffer has the longest answer that there may be.
        """
        self._take(token, len(token))

    def push_part(self, part: Part) -> None:
        """Take another part of the answer.

        Raises:
            NotAPart: a field of the part is not allowed.
            ResponseFull: as of `push`.
        """
        part.check()
        self._take(part, part.size)

    def alive(self) -> None:
        """Record a sign of life, which is sent at most once a second."""
        if self._silent and self._monotonic() - self._last_sent_at >= _SIGN_OF_LIFE_SECONDS:
            self._silent = False
            self._changed.set()

    def end(self) -> None:
        """Record that the model has ended."""
        self._has_ended = True
        self._changed.set()

    async def take(self) -> list[Content] | None:
        """Wait for contents, and return them. None of them: a sign of life, at most one a second.

        Returns None when the model has ended and all contents were returned.
        """
        while not self._buffered and not self._has_ended and self._silent:
            self._changed.clear()
            await self._changed.wait()
        if not self._buffered and self._has_ended:
            return None
        if self.on_first is not None and self._buffered:
            self.on_first()
            self.on_first = None
        self._silent = True
        self._last_sent_at = self._monotonic()
        most_tokens = self._most_tokens
        contents, self._buffered = self._buffered[:most_tokens], self._buffered[most_tokens:]
        self._characters -= sum(map(_characters, contents))
        return contents

    def _take(self, content: Content, characters: int) -> None:
        if self._characters >= self._most_characters:
            raise ResponseFull
        self._buffered.append(content)
        self._characters += characters
        self.tokens_received += 1
        self._changed.set()


def _characters(content: Content) -> int:
    return len(content) if isinstance(content, str) else content.size


_logger = logging.getLogger(__name__)

_IDLE_LOOK_SECONDS = 0.02

_SIGN_OF_LIFE = wire.StreamEvent(tokens=wire.Tokens())

_Context = grpc.aio.ServicerContext[wire.StreamRequest, wire.StreamEvent]
_DescribeContext = grpc.aio.ServicerContext[wire.DescribeRequest, wire.DescribeResponse]


def _traceparent(context: _Context) -> str:
    """The trace in the handler's call. Empty: none."""
    traceparent = dict(context.invocation_metadata() or ()).get(TRACEPARENT)
    return known_traceparent(traceparent) if isinstance(traceparent, str) else ""


class InferenceService(InferenceServicer):
    """Serves `llm.v1.Inference` (proto/llm/v1/inference.proto).

    Args:
        traces: follows calls, where traces are exported.
    """

    def __init__(
        self, source: TokenSource, limits: Limits, traces: CallTraces | None = None
    ) -> None:
        self._source = source
        self._traces = traces
        self._limits = limits
        self._buffers: set[TokenBuffer] = set()
        self._tokens_of_ended = 0

    # The proto's name.
    async def Stream(self, request: wire.StreamRequest, context: _Context) -> None:  # noqa: N802
        """Stream one answer."""
        if len(self._buffers) >= self._limits.generations_per_node:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this worker is full; ask another one")
        if request.options.tools and not request.takes_parts:
            await context.abort(
                grpc.StatusCode.UNAVAILABLE,
                "this handler is too old to read what a model calls; ask another worker",
            )
        buffer = TokenBuffer(self._limits.worker_buffer_tokens, self._limits.response_bytes)
        self._buffers.add(buffer)
        try:
            outcome = await self._followed(request, buffer, context)
        finally:
            self._buffers.discard(buffer)
            self._tokens_of_ended += buffer.tokens_received
        if isinstance(outcome, EvenflowError):
            await context.abort(*status_of(outcome))
        else:
            await context.write(wire.StreamEvent(finish=finish_message(outcome)))

    async def Describe(  # noqa: N802
        self, request: wire.DescribeRequest, context: _DescribeContext
    ) -> wire.DescribeResponse:
        """Report the capabilities of this worker, and its load."""
        return wire.DescribeResponse(
            continues=self._source.continues,
            tools=True,
            parts=True,
            streams=len(self._buffers),
            tokens_taken=self._tokens_of_ended
            + sum(buffer.tokens_received for buffer in self._buffers),
            tokens_waiting=sum(map(len, self._buffers)),
        )

    async def idle(self) -> None:
        """Wait until no answer is being generated."""
        while self._buffers:  # noqa: ASYNC110 - once, as the process ends
            await asyncio.sleep(_IDLE_LOOK_SECONDS)

    async def _followed(
        self, request: wire.StreamRequest, buffer: TokenBuffer, context: _Context
    ) -> ModelFinish | EvenflowError:
        """Send the model's tokens, as a part of the trace in the handler's call."""
        traceparent = _traceparent(context)
        if self._traces is None:
            return await self._outcome(request, buffer, context, traceparent)
        with self._traces.call(traceparent) as trace:
            buffer.on_first = trace.first_token
            outcome = await self._outcome(request, buffer, context, trace.traceparent)
            trace.error = outcome.code if isinstance(outcome, EvenflowError) else None
            return outcome

    async def _outcome(
        self, request: wire.StreamRequest, buffer: TokenBuffer, context: _Context, traceparent: str
    ) -> ModelFinish | EvenflowError:
        """Send the model's tokens. Returns how it ended. Afterwards the model is always stopped."""
        if request.prefix and not self._source.continues:
            return UpstreamFailed(
                "this model cannot go on from the middle of an answer", code="upstream_failed"
            )
        model_request = replace(request_of(request), traceparent=traceparent)
        generating = asyncio.ensure_future(self._source.generate(model_request, buffer))
        generating.add_done_callback(lambda _: buffer.end())
        try:
            while (contents := await buffer.take()) is not None:
                for event in event_messages(contents) if contents else (_SIGN_OF_LIFE,):
                    await context.write(event)
            return await generating
        except ResponseFull:
            return ModelFinish("length", None)
        except EvenflowError as error:
            return error
        except Exception:
            if context.cancelled() or context.done():
                # The handler is gone, and so is the need for an end.
                raise asyncio.CancelledError from None
            _logger.exception("the token source failed with an unknown error")
            return InternalError(
                "the model's connector failed; what was delivered was kept", code="internal_error"
            )
        finally:
            generating.cancel()
            await asyncio.gather(generating, return_exceptions=True)
