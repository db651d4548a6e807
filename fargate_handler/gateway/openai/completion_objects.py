"""The objects of OpenAI's API that an answer is told in."""

from __future__ import annotations

from typing import Any

import orjson

from fargate_handler.gateway.openai.answer_reader import AnswerReader
from stream_core.errors import EvenflowError
from stream_core.marked_text import AnswerPart, CallPart
from stream_core.messages import Usage
from stream_core.response_stream import ResponseStream

DONE = b"data: [DONE]\n\n"


class CompletionObjects:
    """One response as a `chat.completion`, or as the events of its chunks.

    Args:
        created: seconds since the epoch.
        model: the name by which the client asked for it.
        include_usage: whether a stream ends with the usage.
        tools: whether the request has tools.
    """

    def __init__(self, response_id: str, created: int, model: str, *, include_usage: bool, tools: bool) -> None:
        self.tools = tools
        self._common = {"id": f"chatcmpl-{response_id.removeprefix('rsp_')}", "created": created, "model": model}
        self._include_usage = include_usage
        head = orjson.dumps({"object": "chat.completion.chunk", **self._common})
        self._before = b"data: " + head[:-1] + b',"choices":[{"index":0,"delta":'
        self._after = b',"logprobs":null,"finish_reason":'
        self._end = b'}],"usage":null}\n\n' if include_usage else b"}]}\n\n"

    def whole(self, stream: ResponseStream) -> dict[str, Any]:
        """The answer to a request without `stream`.

        Raises:
            UpstreamFailed: it makes no sense.
        """
        said = AnswerReader(tools=self.tools).read(stream.log.text)
        message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
        if said.calls:
            message["content"] = said.text or None
            message["tool_calls"] = [_call(call) for call in said.calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": stream.finish_reason}
        return {"object": "chat.completion", **self._common, "choices": [choice], "usage": _usage(stream.usage)}

    def role(self, event_id: str) -> bytes:
        """The first chunk of every stream. Where tools may be called, there may be no content at all."""
        content = b"null" if self.tools else b'""'
        return self._chunk(event_id, b'{"role":"assistant","content":%b}' % content)

    def part(self, event_id: str, part: AnswerPart) -> bytes:
        """A chunk with what is new, all of it; the client has everything up to `event_id` then."""
        delta: dict[str, Any] = {"content": part.text} if part.text else {}
        if part.calls:
            delta["tool_calls"] = [{"index": call.index} | _call(call) for call in part.calls]
        return self._chunk(event_id, orjson.dumps(delta))

    def finish(self, event_id: str, stream: ResponseStream) -> bytes:
        """The last chunks, and what ends the stream."""
        parts = [self._chunk(event_id, b"{}", orjson.dumps(stream.finish_reason))]
        if self._include_usage and stream.usage is not None:
            usage = {"object": "chat.completion.chunk", **self._common, "choices": [], "usage": _usage(stream.usage)}
            parts.append(b"id: " + event_id.encode() + b"\ndata: " + orjson.dumps(usage) + b"\n\n")
        return b"".join([*parts, DONE])

    def _chunk(self, event_id: str, delta: bytes, finish_reason: bytes = b"null") -> bytes:
        return b"id: %b\n%b%b%b%b%b" % (event_id.encode(), self._before, delta, self._after, finish_reason, self._end)


def error_event(error: EvenflowError) -> bytes:
    """An error behind the head: the clients raise it; and the end."""
    return b"data: " + orjson.dumps(error.to_body()) + b"\n\n" + DONE


def _call(call: CallPart) -> dict[str, Any]:
    if not call.name:
        return {"function": {"arguments": call.arguments}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _usage(usage: Usage | None) -> dict[str, int] | None:
    if usage is None:
        return None
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
