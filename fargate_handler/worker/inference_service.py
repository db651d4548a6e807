"""`llm.v1.Inference`: a token source, offered over gRPC."""

from __future__ import annotations

import asyncio
import logging

import grpc

from fargate_handler.inference_errors import status_of
from fargate_handler.inference_messages import finish_message, request_of
from fargate_handler.llm_v1 import inference_pb2 as wire
from fargate_handler.llm_v1.inference_pb2_grpc import InferenceServicer
from fargate_handler.token_sources.port import ModelFinish, TokenSource
from fargate_handler.worker.token_buffer import TokenBuffer
from stream_core.errors import EvenflowError, InternalError, UpstreamFailed
from stream_core.limits import Limits
from stream_core.response_stream import ResponseFull

_logger = logging.getLogger(__name__)

_IDLE_LOOK_SECONDS = 0.02

_Context = grpc.aio.ServicerContext[wire.StreamRequest, wire.StreamEvent]
_DescribeContext = grpc.aio.ServicerContext[wire.DescribeRequest, wire.DescribeResponse]


class InferenceService(InferenceServicer):
    """See proto/llm/v1/inference.proto."""

    def __init__(self, source: TokenSource, limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self._buffers: set[TokenBuffer] = set()
        self._taken_of_ended = 0

    async def Stream(self, request: wire.StreamRequest, context: _Context) -> None:  # noqa: N802 - the proto's name
        """One answer."""
        if len(self._buffers) >= self._limits.generations_per_node:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this worker is full; ask another one")
        buffer = TokenBuffer(self._limits.worker_buffer_tokens, self._limits.response_bytes)
        self._buffers.add(buffer)
        try:
            outcome = await self._outcome(request, buffer, context)
        finally:
            self._buffers.discard(buffer)
            self._taken_of_ended += buffer.taken
        if isinstance(outcome, EvenflowError):
            await context.abort(*status_of(outcome))
        else:
            await context.write(wire.StreamEvent(finish=finish_message(outcome)))

    async def Describe(self, request: wire.DescribeRequest, context: _DescribeContext) -> wire.DescribeResponse:  # noqa: N802
        """What this worker can, and does."""
        return wire.DescribeResponse(
            continues=self._source.continues,
            tools=True,
            streams=len(self._buffers),
            tokens_taken=self._taken_of_ended + sum(buffer.taken for buffer in self._buffers),
            tokens_waiting=sum(map(len, self._buffers)),
        )

    async def idle(self) -> None:
        """Return when no answer is being generated."""
        while self._buffers:  # noqa: ASYNC110 - once, as the process ends
            await asyncio.sleep(_IDLE_LOOK_SECONDS)

    async def _outcome(
        self, request: wire.StreamRequest, buffer: TokenBuffer, context: _Context
    ) -> ModelFinish | EvenflowError:
        """Send the model's tokens; how it ended. The model is stopped whenever this returns or raises."""
        if request.prefix and not self._source.continues:
            return UpstreamFailed("this model cannot go on from the middle of an answer", code="upstream_failed")
        generating = asyncio.ensure_future(self._source.generate(request_of(request), buffer))
        generating.add_done_callback(lambda _: buffer.end())
        try:
            while (tokens := await buffer.take()) is not None:
                await context.write(wire.StreamEvent(tokens=wire.Tokens(text=tokens)))
            return await generating
        except ResponseFull:
            return ModelFinish("length", None)
        except EvenflowError as error:
            return error
        except Exception:
            if context.cancelled() or context.done():
                raise asyncio.CancelledError from None  # the handler is gone; nobody is left to hear how this ended
            _logger.exception("the token source failed in a way that it doesn't know")
            return InternalError("the model's connector failed; what was delivered was kept", code="internal_error")
        finally:
            generating.cancel()
            await asyncio.gather(generating, return_exceptions=True)
