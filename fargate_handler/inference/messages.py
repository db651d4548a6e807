"""Requests, contents and ends of the token-source port as messages of `llm.v1`, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import orjson

from evenflow.fargate_handler.inference.llm_v1 import inference_pb2 as wire
from evenflow.fargate_handler.token_sources.chunk_fields import cache_written, checked_usage
from evenflow.fargate_handler.token_sources.finish_reasons import model_end
from evenflow.fargate_handler.token_sources.port import (
    CallerInfo,
    ModelFinish,
    ModelOptions,
    ModelRequest,
)
from evenflow.stream_core.log.entries import Content, NotAPart, Part, PartKind, text_of
from evenflow.stream_core.session.conversation import ToolCall, Turn

_KIND_NAMES = {kind: f"KIND_{kind.name}" for kind in PartKind}
_KINDS: dict[int, PartKind] = {
    wire.Part.Kind.Value(name): kind for kind, name in _KIND_NAMES.items()
}


def message_of(request: ModelRequest) -> wire.StreamRequest:
    """A request as a message to a worker."""
    return wire.StreamRequest(
        agent=request.agent,
        turns=[
            wire.Turn(
                role=turn.role,
                text=turn.text,
                tool_calls=[
                    wire.ToolCall(
                        id=call.id,
                        name=call.name,
                        arguments=call.arguments,
                        extra=_json(call.extra),
                    )
                    for call in turn.tool_calls
                ],
                tool_call_id=turn.tool_call_id,
                parts=_json(turn.parts),
                extra=_json(turn.extra),
            )
            for turn in request.turns
        ],
        attempt=request.attempt,
        prefix=request.prefix,
        key=request.key,
        options=_options_message(request.options),
        model=request.model,
        caller=_caller_message(request.caller),
        takes_parts=True,
    )


def request_of(message: wire.StreamRequest) -> ModelRequest:
    """The request in a handler's message.

    Raises:
        ValueError: a field should be JSON and isn't.
    """
    turns = tuple(
        Turn(
            turn.role,
            turn.text,
            tuple(
                ToolCall(call.id, call.name, call.arguments, orjson.loads(call.extra or b"{}"))
                for call in turn.tool_calls
            ),
            turn.tool_call_id,
            tuple(orjson.loads(turn.parts or b"[]")),
            orjson.loads(turn.extra or b"{}"),
        )
        for turn in message.turns
    )
    return ModelRequest(
        message.agent,
        turns,
        message.attempt,
        message.prefix,
        message.key,
        _options_of(message.options),
        model=message.model,
        caller=_caller_of(message.caller),
    )


def event_messages(contents: Iterable[Content]) -> Iterator[wire.StreamEvent]:
    """A model's contents, in their order, as messages to a handler."""
    for are_text, run in groupby(contents, lambda content: isinstance(content, str)):
        if are_text:
            yield wire.StreamEvent(tokens=wire.Tokens(text=map(text_of, run)))
        else:
            parts = [_part_message(content) for content in run if isinstance(content, Part)]
            yield wire.StreamEvent(parts=wire.Parts(part=parts))


def _part_message(part: Part) -> wire.Part:
    return wire.Part(
        kind=_KIND_NAMES[part.kind],
        text=part.text,
        choice=part.choice,
        call=part.call,
        id=part.id,
        name=part.name,
    )


def part_of(message: wire.Part) -> Part:
    """The part in a worker's message.

    Raises:
        NotAPart: it can't be a part of an answer.
    """
    kind = _KINDS.get(message.kind)
    if kind is None:
        raise NotAPart("a part is of an unknown kind")
    part = Part(kind, message.text, message.choice, message.call, message.id, message.name)
    part.check()
    if kind is PartKind.DATA:
        try:
            orjson.loads(part.text)
        except orjson.JSONDecodeError as wrong:
            raise NotAPart("data is not JSON") from wrong
    return part


def finish_message(finish: ModelFinish) -> wire.Finish:
    """A model's end as a message to a handler."""
    usage = finish.usage
    if usage is None:
        return wire.Finish(reason=finish.finish_reason)
    return wire.Finish(
        reason=finish.finish_reason,
        usage=wire.Usage(**usage.counted(), cache_write_tokens=finish.cache_written or None),
    )


def finish_of(message: wire.Finish) -> ModelFinish:
    """Read the end of an answer from a worker's message.

    Raises:
        UpstreamFailed: the message reports that the model failed.
    """
    reason = model_end(message.reason)
    if not message.HasField("usage"):
        return ModelFinish(reason, None)
    usage_message = message.usage
    known = {
        name: getattr(usage_message, name)
        for name in ("cached_tokens", "reasoning_tokens")
        if usage_message.HasField(name)
    }
    usage = checked_usage(
        usage_message.prompt_tokens,
        usage_message.completion_tokens,
        cached=known.get("cached_tokens"),
        reasoning=known.get("reasoning_tokens"),
    )
    return ModelFinish(reason, usage, cache_written(usage_message.cache_write_tokens, usage))


def _caller_message(caller: CallerInfo) -> wire.Caller:
    return wire.Caller(
        session=caller.session,
        user=caller.user,
        tenant=caller.tenant,
        message_id=caller.message_id,
        metadata=dict(caller.metadata),
    )


def _caller_of(message: wire.Caller) -> CallerInfo:
    return CallerInfo(
        message.session, message.user, message.tenant, message.message_id, dict(message.metadata)
    )


def _options_message(options: ModelOptions) -> wire.Options:
    given = options.given()
    if "tools" in given:
        given["tools"] = [orjson.dumps(tool).decode() for tool in options.tools]
    if "tool_choice" in given:
        given["tool_choice"] = orjson.dumps(options.tool_choice).decode()
    if "passed" in given:
        given["passed"] = _json(options.passed)
    return wire.Options(**given)


def _options_of(message: wire.Options) -> ModelOptions:
    given = {field.name: value for field, value in message.ListFields()}
    given["stop"] = tuple(message.stop)
    given["tools"] = tuple(orjson.loads(tool) for tool in message.tools)
    if "tool_choice" in given:
        given["tool_choice"] = orjson.loads(message.tool_choice)
    given["passed"] = orjson.loads(message.passed or b"{}")
    return ModelOptions(**given)


def _json(value: tuple[Any, ...] | dict[str, Any]) -> str:
    return orjson.dumps(value).decode() if value else ""
