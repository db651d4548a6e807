"""The objects of OpenAI's API for an answer: a completion, and its chunks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from stream_core.log.marked_text import AnswerPart, CallPart, NotMarked
from stream_core.log.marked_text_reader import MarkedTextReader
from stream_core.log.response_stream import ResponseStream
from stream_core.protocol.errors import EvenflowError, UpstreamFailed
from stream_core.protocol.messages import Usage

DONE = b"data: [DONE]\n\n"


class AnswerReader:
    """Reads a response's marked text piece by piece: text, calls, and what is beside them."""

    def __init__(self) -> None:
        self._marked = MarkedTextReader()

    @property
    def open_choices(self) -> tuple[int, ...]:
        """The choices that end as the response does."""
        return self._marked.open_choices

    @property
    def in_text(self) -> bool:
        """Whether a piece without marks is text of the answer itself."""
        return self._marked.in_text

    def read(self, piece: str) -> tuple[AnswerPart, ...]:
        """What `piece` adds, one part a choice. Nothing when it ends within a mark.

        Raises:
            UpstreamFailed: the text is not marked text: the token source has a fault.
        """
        try:
            return self._marked.read(piece)
        except NotMarked as wrong:
            raise UpstreamFailed(
                f"the model's answer cannot be read ({wrong}); drop what you have of it, and ask "
                "again",
                code="upstream_failed",
            ) from wrong


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
        self._before = b"data: " + head[:-1] + b',"choices":'
        self._end = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        # Of a chunk that is only text, all but its id and the text.
        plain = orjson.dumps([_choice(0, {"content": ""})])
        before, after = plain.split(b'""')
        self._before_text, self._after_text = self._before + before, after + self._end

    def whole(self, stream: ResponseStream) -> dict[str, Any]:
        """The whole answer, for a request without `stream`.

        Raises:
            UpstreamFailed: the text is not marked text.
        """
        reader = AnswerReader()
        parts = {part.choice: part for part in reader.read(stream.log.text)}
        told = {choice: AnswerPart(choice=choice) for choice in reader.open_choices} | parts
        choices = [_whole_choice(told[choice], stream.finish_reason) for choice in sorted(told)]
        # Clients' types allow no null here: where the model doesn't count, the field is left out.
        usage = {"usage": _usage(stream.usage)} if stream.usage is not None else {}
        return {"object": "chat.completion", **self._common, "choices": choices, **usage}

    @property
    def text_key(self) -> Hashable:
        """The same for all whose `delta` writes the same bytes."""
        return CompletionObjects, self._before_text, self._after_text

    def delta(self, text: str, _first: int, last: int) -> bytes:
        """A chunk with text of the answer itself, as `parts` writes it, in the first epoch."""
        return b"id: %d\n%b%b%b" % (
            last,
            self._before_text,
            orjson.dumps(text),
            self._after_text,
        )

    def role(self, event_id: bytes) -> bytes:
        """The first chunk of every stream."""
        return self._chunk(
            event_id, [_choice(0, {"role": "assistant", "content": None if self._tools else ""})]
        )

    def parts(self, event_id: bytes, parts: Iterable[AnswerPart]) -> bytes:
        """A chunk with all of `parts`. With it the client has everything up to `event_id`."""
        return self._chunk(event_id, [_choice_of(part) for part in parts])

    def finish(self, event_id: bytes, stream: ResponseStream, choices: Iterable[int]) -> bytes:
        """The last chunks, and the end of the stream. `choices` are those that have not ended."""
        chunks = [
            self._chunk(event_id, [_choice(choice, {}, stream.finish_reason) for choice in choices])
        ]
        if self._include_usage and stream.usage is not None:
            usage = {
                "object": "chat.completion.chunk",
                **self._common,
                "choices": [],
                "usage": _usage(stream.usage),
            }
            chunks.append(b"id: " + event_id + b"\ndata: " + orjson.dumps(usage) + b"\n\n")
        return b"".join([*chunks, DONE])

    def _chunk(self, event_id: bytes, choices: Sequence[Mapping[str, Any]]) -> bytes:
        return b"id: %b\n%b%b%b" % (
            event_id,
            self._before,
            orjson.dumps(choices),
            self._end,
        )


def error_event(error: EvenflowError) -> bytes:
    """An error as an event that clients raise, after the head was sent, and the stream's end."""
    return b"data: " + orjson.dumps(error.to_body()) + b"\n\n" + DONE


def _choice_of(part: AnswerPart) -> dict[str, Any]:
    delta: dict[str, Any] = {"role": "assistant"} if part.begins else {}
    if part.text:
        delta["content"] = part.text
    delta |= part.asides
    if part.calls:
        delta["tool_calls"] = [{"index": call.index} | _call(call) for call in part.calls]
    return _choice(part.choice, delta, part.end or None, _logprobs(part))


def _choice(
    index: int,
    delta: dict[str, Any],
    finish_reason: str | None = None,
    logprobs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}


def _whole_choice(part: AnswerPart, finish_reason: str | None) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": part.text,
        "refusal": None,
        **part.asides,
    }
    if part.calls:
        message["tool_calls"] = [_call(call) for call in part.calls]
    if part.calls or part.asides.get("refusal"):
        message["content"] = part.text or None
    return {
        "index": part.choice,
        "message": message,
        "logprobs": _logprobs(part),
        "finish_reason": part.end or finish_reason,
    }


def _call(call: CallPart) -> dict[str, Any]:
    told = {"input" if call.type == "custom" else "arguments": call.arguments}
    if not call.name:
        return {call.type: told}
    return {"id": call.id, "type": call.type, call.type: {"name": call.name, **told}}


def _logprobs(part: AnswerPart) -> dict[str, Any] | None:
    return {"content": None, "refusal": None, **part.logprobs} if part.logprobs else None


def _usage(usage: Usage) -> dict[str, Any]:
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    told: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if usage.cached_tokens is not None:
        told["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        told["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return told
