"""The objects of OpenAI's API for an answer: a completion, and its chunks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import orjson

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import joined
from evenflow.stream_core.log.returned_fields import Fields
from evenflow.stream_core.protocols.openai_chat.deltas import (
    Choice,
    CompletionDeltas,
    UnreadFields,
    WholeChoice,
    choice_object,
)

DONE = b"data: [DONE]\n\n"


class CompletionObjects:
    """Makes one response a `chat.completion`, or events with its chunks.

    Args:
        created: seconds since the epoch.
        model: the model's name in the client's request.
        include_usage: whether a stream ends with the usage.
        tools: whether the request has tools. Then the answer may have no content.
    """

    def __init__(
        self, response_id: str, created: int, model: str, *, include_usage: bool, tools: bool
    ) -> None:
        self._tools = tools
        self._common = {
            "id": f"chatcmpl-{response_id.removeprefix('rsp_')}",
            "created": created,
            "model": model,
        }
        self._include_usage = include_usage
        head = orjson.dumps({"object": "chat.completion.chunk", **self._common})
        self._prefix = b"data: " + head[:-1] + b',"choices":'
        self._end = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        # Of a chunk that is only text, all but its id and the text.
        plain = orjson.dumps([choice_object(0, {"content": ""})])
        prefix, suffix = plain.split(b'""')
        self._before_text, self._after_text = self._prefix + prefix, suffix + self._end

    def whole(self, stream: ResponseStream) -> dict[str, Any]:
        """The whole answer, for a request without `stream`."""
        deltas, choices = CompletionDeltas(), {0: WholeChoice(0)}
        contents = joined(stream.log.read(0).current)
        new_choices = [deltas.take(content) for content in contents]
        first = [choice for choice in new_choices if choice is not None]
        for choice in [*first, *deltas.take_pending(), *deltas.last(stream.finish_reason)]:
            choices.setdefault(choice["index"], WholeChoice(choice["index"])).add(choice)
        # Clients' types allow no null here: where the model doesn't count, the field is left out.
        unread = deltas.unread
        usage_object = {}
        if stream.usage is not None:
            usage_object = {"usage": _usage(stream.usage, unread.usage)}
        return {
            **unread.chunk,
            "object": "chat.completion",
            **self._common,
            "choices": [choices[index].to_object() for index in sorted(choices)],
            **usage_object,
        }

    @property
    def text_key(self) -> Hashable:
        """A key that is equal for all encoders with equal `delta` bytes."""
        return CompletionObjects, self._before_text, self._after_text

    def delta(self, text: str, _first: int, last: int) -> bytes:
        """A chunk with text of the first choice, as `chunk` writes it, in the first epoch."""
        return b"id: %d\n%b%b%b" % (
            last,
            self._before_text,
            orjson.dumps(text),
            self._after_text,
        )

    def role(self, event_id: bytes) -> bytes:
        """The first chunk of every stream."""
        return self.chunk(
            event_id,
            [choice_object(0, {"role": "assistant", "content": None if self._tools else ""})],
        )

    def chunk(
        self, event_id: bytes, choices: Sequence[Choice], unread: Fields | None = None
    ) -> bytes:
        """A chunk, with further fields of the server. It brings everything up to `event_id`."""
        fields = b"," + orjson.dumps(unread)[1:-1] if unread else b""
        content = orjson.dumps(choices) + fields
        return b"id: %b\n%b%b%b" % (event_id, self._prefix, content, self._end)

    def finish(
        self,
        event_id: bytes,
        stream: ResponseStream,
        choices: Sequence[Choice],
        unread: UnreadFields,
    ) -> bytes:
        """The last chunks, and the end of the stream. `choices` say how they ended."""
        chunks = [self.chunk(event_id, choices, unread.chunk)]
        if self._include_usage and stream.usage is not None:
            usage = {
                "object": "chat.completion.chunk",
                **self._common,
                "choices": [],
                "usage": _usage(stream.usage, unread.usage),
            }
            chunks.append(b"id: " + event_id + b"\ndata: " + orjson.dumps(usage) + b"\n\n")
        return b"".join([*chunks, DONE])


def error_event(error: EvenflowError) -> bytes:
    """An error as an event that clients raise, after the head was sent, and the stream's end."""
    return b"data: " + orjson.dumps(error.to_body()) + b"\n\n" + DONE


def _usage(usage: Usage, unread: Fields) -> dict[str, Any]:
    """A usage, with the further counts of the model's server."""
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    fields: Fields = {
        **unread,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if usage.cached_tokens is not None:
        fields |= _with(unread, "prompt_tokens_details", "cached_tokens", usage.cached_tokens)
    if usage.reasoning_tokens is not None:
        reasoning = usage.reasoning_tokens
        fields |= _with(unread, "completion_tokens_details", "reasoning_tokens", reasoning)
    return fields


def _with(unread: Fields, details: str, name: str, count: int) -> Fields:
    details_object = unread.get(details)
    return {details: {**(details_object if isinstance(details_object, dict) else {}), name: count}}
