"""Workers on other machines as a token source, over gRPC."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc

from evenflow.fargate_handler.inference.channel_options import handler_options
from evenflow.fargate_handler.inference.errors import error_of
from evenflow.fargate_handler.inference.llm_v1 import inference_pb2 as wire
from evenflow.fargate_handler.inference.llm_v1.inference_pb2_grpc import InferenceStub
from evenflow.fargate_handler.inference.messages import finish_of, message_of, part_of
from evenflow.fargate_handler.inference.worker_pool import KnownWorker, WorkerPool, resolve
from evenflow.fargate_handler.token_sources.model_connection import while_paused
from evenflow.fargate_handler.token_sources.operator_log import OperatorLog
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from evenflow.fargate_handler.token_sources.tool_call_numbers import CallIds
from evenflow.stream_core.base.errors import ModelRefused, UpstreamFailed, UpstreamUnreadable
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.base.trace_context import TRACEPARENT
from evenflow.stream_core.log.entries import NotAPart, Part, PartKind

_logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_DESCRIBE_SECONDS = 1.0
# The orchestrator ends a call in time, and pings notice a machine that is gone. This is for calls
# that both miss: the orchestrator's clock stops while a model is paused.
_LONGEST_PAUSE_SECONDS = 6 * 3600.0

_UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


class _WorkerConnection:
    """The channel to one worker."""

    def __init__(self, target: str, options: list[tuple[str, int | str]]) -> None:
        self.target = target
        self.channel = grpc.aio.insecure_channel(target, options)
        self.stub = InferenceStub(self.channel)


_Worker = KnownWorker[_WorkerConnection]


class GrpcWorkers:
    """A `TokenSource` that calls the least busy worker.

    Args:
        addresses: `host:port` of each worker. A name may have several, and is looked up again
            every few seconds.
    """

    def __init__(self, addresses: Sequence[str], limits: Limits) -> None:
        self._addresses = addresses
        self._limits = limits
        self._call_seconds = limits.model_deadline_seconds + _LONGEST_PAUSE_SECONDS
        self._pool = WorkerPool(self._connect, limits.worker_rest_seconds)
        self._operator = OperatorLog(_logger)
        self._targets: Mapping[str, str] = {}
        self._looked_up = asyncio.Event()
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    @property
    def continues(self) -> bool:
        """Whether all workers have reported that they continue answers."""
        return self._pool.continue_answers

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """Push the answer's tokens.

        Another worker is called if one is gone before its first token.
        """
        await self._looked_up.wait()
        message = message_of(request)
        tried: list[_Worker] = []
        failure: grpc.aio.AioRpcError | None = None
        without_tools = False
        while (worker := self._pool.pick(time.monotonic(), tried)) is not None:
            tried.append(worker)
            answer = _WorkerAnswer(sink)
            try:
                async with _occupied(worker):
                    if request.options.tools and await self._lacks_tools(worker):
                        without_tools = True
                        continue
                    return await self._call_worker(worker, message, answer, request.traceparent)
            except grpc.aio.AioRpcError as error:
                if error.code() is not _UNAVAILABLE:
                    raise error_of(error, self._operator) from error
                self._rest_worker(worker, error)
                failure = error
                if answer.has_begun:
                    break
        if failure is None and without_tools:
            raise ModelRefused(
                "the workers of this model don't know tools; nothing was generated, ask without "
                "them",
                code="model_refused",
            )
        raise UpstreamFailed(
            "no worker can be reached"
            if failure is None
            else "the worker is gone; what it had sent was kept",
            code="upstream_failed",
        ) from failure

    async def _call_worker(
        self, worker: _Worker, message: wire.StreamRequest, answer: _WorkerAnswer, traceparent: str
    ) -> ModelFinish:
        call = worker.connection.stub.Stream(
            message,
            timeout=self._call_seconds,
            metadata=((TRACEPARENT, traceparent),) if traceparent else None,
        )
        try:
            async for event in call:
                answer.take(event)
                await while_paused(answer.sink)
            return answer.finish()
        finally:
            call.cancel()  # which stops the model; harmless after the end

    def _rest_worker(self, worker: _Worker, error: grpc.aio.AioRpcError) -> None:
        _logger.warning(
            "the worker %s is gone or full (%s)", worker.connection.target, error.details()
        )
        self._pool.rest(worker, time.monotonic())

    async def close(self) -> None:
        """Close the connections to the workers."""
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        await _close(self._pool.update({}))

    # -- looking for workers -----------------------------------------------------------------------

    def _connect(self, target: str, address: str) -> _WorkerConnection:
        return _WorkerConnection(target, handler_options(self._limits, address))

    async def _watch(self) -> None:
        """Look the names up again, and query workers that were lost or have no report yet."""
        while True:
            try:
                self._targets = await resolve(self._addresses, self._targets)
                await _close(self._pool.update(self._targets))
                self._looked_up.set()
                silent = [
                    worker
                    for worker in self._pool.workers
                    if worker.is_lost or worker.continues is None
                ]
                await asyncio.gather(*map(self._describe, silent))
            except Exception:
                _logger.exception("looking for workers failed; the known ones stay")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _describe(self, worker: _Worker) -> None:
        try:
            report = await worker.connection.stub.Describe(
                wire.DescribeRequest(), timeout=_DESCRIBE_SECONDS
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:  # a worker that is not ours
                self._pool.wake(worker, continues=False, tools=False)
            else:
                self._pool.rest(worker, time.monotonic())
        else:
            # One that marks calls in the text is older than parts.
            self._pool.wake(worker, continues=report.continues, tools=report.tools and report.parts)

    async def _lacks_tools(self, worker: _Worker) -> bool:
        """Whether a worker ignores tools, or sends calls in a form that this handler can't read."""
        if worker.tools is None:
            await self._describe(worker)
        return worker.tools is False


class _WorkerAnswer:
    """Reads the events of one call."""

    def __init__(self, sink: TokenSink) -> None:
        self.sink = sink
        self.has_begun = False
        self._finish: wire.Finish | None = None
        self._call_ids = defaultdict[int, CallIds](CallIds)

    def take(self, event: wire.StreamEvent) -> None:
        tokens = event.tokens.text
        parts = event.parts.part
        if event.HasField("finish"):
            self._finish = event.finish
        elif not tokens and not parts:
            self.sink.alive()
            return
        self.has_begun = True
        for token in tokens:
            self.sink.push(token)
        for part in parts:
            self.sink.push_part(self._with_own_id(_checked(part)))

    def finish(self) -> ModelFinish:
        """Take the end of the stream. Returns how the model ended.

        Raises:
            UpstreamFailed: the stream ended before the model had finished.
        """
        if self._finish is None:
            raise UpstreamFailed(
                "the worker broke off in the middle of its answer; what came before was kept",
                code="upstream_failed",
            )
        return finish_of(self._finish)

    def _with_own_id(self, part: Part) -> Part:
        """Make the id of a call, or of a result, unique within its choice."""
        if part.kind is PartKind.CALL:
            return replace(part, id=self._call_ids[part.choice].add_call(part.id))
        if part.kind is PartKind.RESULT:
            return replace(part, id=self._call_ids[part.choice].match_result(part.id))
        return part


def _checked(part: wire.Part) -> Part:
    try:
        return part_of(part)
    except NotAPart as wrong:
        raise UpstreamUnreadable(
            f"the worker's answer cannot be read ({wrong}); what came before was kept",
            code="upstream_failed",
        ) from wrong


@asynccontextmanager
async def _occupied(worker: _Worker) -> AsyncIterator[None]:
    """Count an answer of this worker, and keep its connection until the end."""
    worker.outstanding += 1
    try:
        yield
    finally:
        worker.outstanding -= 1
        if worker.is_removed and not worker.outstanding:
            await worker.connection.channel.close()


async def _close(connections: Sequence[_WorkerConnection]) -> None:
    for connection in connections:
        await connection.channel.close()
