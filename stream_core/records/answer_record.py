"""The line of an answer: one in a deployment, by the node that recorded its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.records.event_record import EventRecord, milliseconds
from evenflow.stream_core.stores.response_store import ResponseHead

_DOLLAR_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord(EventRecord):
    """An answer has ended, and its end is on record."""

    EVENT: ClassVar[str] = "answer"
    MOST_PER_SECOND: ClassVar[int | None] = None

    tenant: Annotated[str, "the tenant"]
    agent: Annotated[str, "the agent"]
    session: Annotated[str, "16 digits of the SHA-256 of the session's id"]
    message_id: Annotated[str, "the message, as its sender named it"]
    response_id: Annotated[str, "the answer"]
    trace: Annotated[
        str | None, "of its trace, as its client says, or that of the spans which are exported"
    ] = None
    model: Annotated[str | None, "the model's name at its server"] = None
    protocol: Annotated[
        str | None,
        "of its first reader at this node: a subprotocol, or the name of an API; left out where "
        "it was not read here",
    ] = None
    transport: Annotated[str | None, "of the same reader: websocket, sse, poll, http"] = None
    transport_changes: Annotated[
        int | None, "how often a later reader came over another transport than the one before"
    ] = None
    state: Annotated[str, "completed, error or cancelled"]
    finish_reason: Annotated[str | None, "why it ended: stop, length, tool_calls, …"] = None
    error: Annotated[str | None, "the code of its error"] = None
    degraded: Annotated[bool | None, "true: the fallback took the model's place"] = None
    epoch: Annotated[int, "how many nodes have owned it, 1 for none but this one"]
    attempt: Annotated[int, "the last attempt, counted over all nodes"]
    retries: Annotated[int, "attempts of this node that followed a failed one"] = 0
    input_tokens: Annotated[int | None, "tokens that the model read, as its server counts"] = None
    output_tokens: Annotated[
        int | None, "tokens that the model gave: as its server counts, otherwise pieces that came"
    ] = None
    cached_tokens: Annotated[int | None, "of the input, as its server counts"] = None
    reasoning_tokens: Annotated[int | None, "of the output, as its server counts"] = None
    tokens_counted_by: Annotated[
        str | None, "`model`, or `pieces` where its server reported no usage"
    ] = None
    cost_usd: Annotated[
        float | None,
        "dollars of the last attempt, by EVENFLOW_MODEL_PRICES, where usage was reported",
    ] = None
    entries_generated: Annotated[int, "entries of its log: deltas, parts and restarts"]
    entries_delivered: Annotated[
        int, "of these, what its furthest reader at this node was given"
    ] = 0
    entries_acknowledged: Annotated[int, "of these, acknowledged by clients, by then"] = 0
    polls: Annotated[int | None, "polls that this node answered"] = None
    queue_ms: Annotated[float | None, "from acceptance to the begin of its generation"] = None
    first_token_ms: Annotated[float | None, "from acceptance to its first entry"] = None
    token_gap_p50_ms: Annotated[float | None, "time between tokens, at most 19 % too long"] = None
    token_gap_p95_ms: Annotated[float | None, "likewise"] = None
    token_gap_max_ms: Annotated[float | None, "the longest silence between two deliveries"] = None
    stalls: Annotated[int | None, "silences longer than a second"] = None
    duration_ms: Annotated[
        float | None, "from acceptance, or from its take-over by this node, to its end"
    ] = None

    def __str__(self) -> str:
        line = f"answer {self.response_id} {self.state}"
        if reason := self.error or self.finish_reason:
            line += f" ({reason})"
        if self.duration_ms is not None:
            line += f": {self.output_tokens} tokens in {self.duration_ms / 1000:.2f} s"
        if self.first_token_ms is not None:
            line += f", the first after {self.first_token_ms:.0f} ms"
        if self.token_gap_p50_ms is not None:
            line += f", then one in {self.token_gap_p50_ms:g} ms (p95 {self.token_gap_p95_ms:g} ms)"
        return line


def answer_record(stream: ResponseStream, prices: ModelPrices) -> AnswerRecord:
    """The line of an answer that has ended at this node.

    The acceptance of an adopted answer, and its readers on the earlier node, are unknown.
    """
    figures, channel = stream.figures, stream.channel
    protocol, transport = figures.first_reader or (None, None)
    reading = [reader.next_index for reader in stream.readers]
    return AnswerRecord(
        tenant=channel.tenant,
        agent=channel.agent,
        session=channel.session_digest,
        message_id=stream.message_id,
        response_id=stream.response_id,
        trace=figures.trace or None,
        model=figures.model or None,
        protocol=protocol,
        transport=transport,
        transport_changes=figures.transport_changes or None,
        state=stream.state.value,
        finish_reason=stream.finish_reason,
        error=None if stream.error is None else stream.error["code"],
        degraded=stream.degraded or None,
        epoch=stream.epoch,
        attempt=stream.attempt,
        retries=figures.retries,
        entries_generated=stream.log.next_index,
        entries_delivered=max(figures.delivered, *reading, 0),
        entries_acknowledged=stream.acknowledged + 1,
        polls=stream.polls or None,
        **_tokens(stream, prices),
        **_times(stream),
    )


def given_up_record(head: ResponseHead, entries: int, error: str) -> AnswerRecord:
    """The line of an answer that no node continues.

    Args:
        entries: the number of entries in its log.
        error: the code of its error.
    """
    channel = Channel(*head.channel.split(":"))
    return AnswerRecord(
        tenant=channel.tenant,
        agent=channel.agent,
        session=channel.session_digest,
        message_id=head.message_id,
        response_id=head.response_id,
        state=ResponseState.ERROR.value,
        error=error,
        epoch=head.epoch,
        attempt=head.epoch,
        entries_generated=entries,
    )


def _tokens(stream: ResponseStream, prices: ModelPrices) -> dict[str, Any]:
    usage = stream.usage
    if usage is None:
        return {"output_tokens": stream.allowance.counted, "tokens_counted_by": "pieces"}
    cost = prices.cost(
        stream.figures.model,
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.cached_tokens or 0,
        stream.figures.cache_written,
    )
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "tokens_counted_by": "model",
        "cost_usd": None if cost is None else round(cost, _DOLLAR_DIGITS),
    }


def _times(stream: ResponseStream) -> dict[str, Any]:
    figures, times = stream.figures, dict[str, Any]()
    if stream.ended_at is not None:
        times["duration_ms"] = milliseconds(stream.ended_at - stream.created_at)
    if stream.epoch == 1:
        if figures.began_at is not None:
            times["queue_ms"] = milliseconds(figures.began_at - stream.created_at)
        if stream.first_delta_at is not None and stream.log.next_index:
            times["first_token_ms"] = milliseconds(stream.first_delta_at - stream.created_at)
    if figures.gaps is not None:
        times["token_gap_p50_ms"] = milliseconds(figures.gaps.p50)
        times["token_gap_p95_ms"] = milliseconds(figures.gaps.p95)
        times["token_gap_max_ms"] = milliseconds(figures.gaps.longest)
        times["stalls"] = figures.gaps.stalls
    return times
