"""The usage record of an answer that has ended."""

from __future__ import annotations

from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.session.token_estimate import most_tokens
from evenflow.stream_core.stores.response_store import ResponseHead
from evenflow.stream_core.tenants.usage import UsageRecord

_TIMEOUTS = frozenset({"first_token_timeout", "model_timeout"})


def pieces_used(stream: ResponseStream) -> tuple[int, int]:
    """The estimated input and the pieces of an ended answer, where no usage was reported.

    A model that fails or rejects before its first token costs nothing. One that took too long had
    begun its work.
    """
    has_called = stream.figures.began_at is not None
    if stream.state is ResponseState.ERROR and not stream.tokens:
        is_timeout = stream.error is not None and stream.error["code"] in _TIMEOUTS
        has_called = has_called and is_timeout
    return (stream.figures.input_estimate if has_called else 0), stream.allowance.counted


def charged_usage(stream: ResponseStream) -> Usage | None:
    """The usage that the model's server reported, at most what was reserved or can be true.

    None: it reported none.
    """
    usage = stream.usage
    if usage is None:
        return None
    prompt = min(usage.prompt_tokens, _most_input(stream))
    output = min(usage.completion_tokens, _most_output(stream, usage.completion_tokens))
    cached = None if usage.cached_tokens is None else min(usage.cached_tokens, prompt)
    reasoning = None if usage.reasoning_tokens is None else min(usage.reasoning_tokens, output)
    charged = prompt, output, cached, reasoning
    return usage if charged == usage.counts else Usage(*charged)  # mostly it is the same


def _most_input(stream: ResponseStream) -> int:
    figures = stream.figures
    # The input of a later attempt has the text of the earlier ones.
    delivered = stream.log.text_bytes if stream.attempt > 1 else 0
    return delivered + most_tokens(figures.input_estimate, figures.media_tokens, figures.calls)


def _most_output(stream: ResponseStream, reported: int) -> int:
    figures, tokens = stream.figures, stream.allowance.reserved
    if figures.longest is not None:
        reserved = figures.longest * figures.calls
    else:
        reserved = reported if tokens is None else tokens + 1
    return max(reserved, stream.allowance.counted)


def usage_record(stream: ResponseStream, ended_at: float, prices: ModelPrices) -> UsageRecord:
    """The usage of an answer that has ended on this node: of its last attempt, as in its log line.

    Args:
        ended_at: seconds since the epoch.
    """
    figures, usage = stream.figures, charged_usage(stream)
    if usage is None:
        counted = "pieces", *pieces_used(stream), 0, 0, 0
    else:
        cached, reasoning = usage.cached_tokens or 0, usage.reasoning_tokens or 0
        written = min(figures.cache_written, usage.prompt_tokens - cached)
        counted = "model", usage.prompt_tokens, usage.completion_tokens, cached, written, reasoning
    counted_by, prompt, output, cached, written, reasoning = counted
    return UsageRecord(
        tenant=stream.channel.tenant,
        response_id=stream.response_id,
        agent=stream.channel.agent,
        user=figures.user,
        key=figures.key,
        model=figures.model,
        state=stream.state.value,
        finish_reason=stream.finish_reason,
        error=None if stream.error is None else stream.error["code"],
        ended_at=ended_at,
        epoch=stream.epoch,
        input_tokens=prompt,
        output_tokens=output,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=reasoning,
        tokens_counted_by=counted_by,
        nanodollars=prices.nanodollars(figures.model, prompt, output, cached, written),
    )


def given_up_usage(
    head: ResponseHead, terms: MessageTerms, ended_at: float, output_tokens: int, error: str
) -> UsageRecord:
    """The usage of an answer that no node continues. Its input is unknown here.

    Args:
        output_tokens: the estimate by the entries on record.
        error: the code of its error.
    """
    channel = Channel(*head.channel.split(":"))
    return UsageRecord(
        tenant=channel.tenant,
        response_id=head.response_id,
        agent=channel.agent,
        user=terms.user,
        key=terms.key,
        model=terms.model,
        state=ResponseState.ERROR.value,
        error=error,
        ended_at=ended_at,
        epoch=head.epoch,
        output_tokens=output_tokens,
        tokens_counted_by="pieces",
    )
