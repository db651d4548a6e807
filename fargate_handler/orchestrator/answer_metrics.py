"""Counts the answers that this node has generated, once they have ended."""

from __future__ import annotations

from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.base.errors import is_failure
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue

_OUTCOMES = {
    ResponseState.COMPLETED: catalogue.RESPONSES_COMPLETED,
    ResponseState.ERROR: catalogue.RESPONSES_FAILED,
    ResponseState.CANCELLED: catalogue.RESPONSES_CANCELLED,
}
_LONG_WAIT_SECONDS = 10.0
# Labels: of the source's own model, and of an answer without a reader.
_OWN_MODEL, _NO_READER = "default", "none"


class AnswerMetrics:
    """Counts ended answers by their outcome, and the times between their tokens."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def count(self, stream: ResponseStream, service_class: ServiceClass) -> None:
        """Count a response that was generated here and has ended."""
        metrics, figures = self._metrics, stream.figures
        model = figures.model or _OWN_MODEL
        protocol, _ = figures.first_reader or (_NO_READER, "")
        metrics.labelled(catalogue.RESPONSES_ENDED).count(
            stream.channel.agent,
            model,
            protocol,
            stream.state.value,
            _reason(stream),
        )
        gaps = metrics.divided(catalogue.TOKEN_GAP)
        for seconds, tokens in stream.delivery.take_gaps().counted():
            gaps.record_of(model, seconds * 1000, tokens)
        metrics.counter(_OUTCOMES[stream.state]).value += 1
        metrics.counter(catalogue.GENERATIONS_DEGRADED).value += stream.degraded
        self._count_failure(stream)
        metrics.counter(catalogue.TOKENS_GENERATED).value += stream.tokens
        first_at = _first_token_at(stream)
        # A response that was taken over began on another node.
        if stream.epoch == 1 and first_at is not None:
            waited_ms = (first_at - stream.created_at) * 1000
            first_tokens = metrics.divided(catalogue.FIRST_TOKEN)
            if service_class is ServiceClass.BATCH:
                first_tokens.of(model).record(waited_ms)
            else:
                first_tokens.record_of(model, waited_ms)

    def _count_failure(self, stream: ResponseStream) -> None:
        has_failed = stream.state is ResponseState.ERROR
        is_left_out = has_failed and stream.error is not None and not is_failure(stream.error)
        if stream.state is ResponseState.CANCELLED or is_left_out:
            return
        rate = self._metrics.ratio(catalogue.RESPONSE_FAILURE_RATE)
        rate.whole += 1
        rate.part += has_failed or stream.degraded


def _first_token_at(stream: ResponseStream) -> float | None:
    """When the first token came. None if it isn't known.

    For a response that ended without one after a long wait it is the end: it came later, if at
    all. Otherwise the answers of a model that hangs would count as if they had not been.
    """
    if stream.tokens:
        return stream.first_delta_at
    ended_at = stream.ended_at
    if ended_at is None or stream.state is ResponseState.COMPLETED:
        return None
    return ended_at if ended_at - stream.created_at >= _LONG_WAIT_SECONDS else None


def _reason(stream: ResponseStream) -> str:
    """Why a response has ended: its finish reason, or its error's code."""
    code = stream.error["code"] if stream.error is not None else None
    return str(code or stream.finish_reason or stream.state)
