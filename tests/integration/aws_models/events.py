"""The events of both services, as they are on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random

from tests.integration.aws_models.event_stream_message import event_stream_message

_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def json_event(kind: str, body: object) -> bytes:
    """An event of Bedrock."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return event_stream_message(headers, json.dumps(body, ensure_ascii=False).encode())


def exception(kind: str, message: str, **members: object) -> bytes:
    """The event that ends a stream with a failure, of either service."""
    headers = {
        ":exception-type": kind,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return event_stream_message(headers, json.dumps({"message": message, **members}).encode())


def text_delta(text: str) -> bytes:
    """A piece of Bedrock's text.

    The padding `p` hides its length, and is part of what Bedrock sends.
    """
    padding = _ALPHABET[: len(text) * 7 % 40]
    return json_event(
        "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}, "p": padding}
    )


def tool_use(block: int, call_id: str, name: str, *arguments: str) -> bytes:
    """A whole content block of Bedrock in which the model calls a tool.

    The first piece of its arguments is empty.
    """
    begins = {
        "contentBlockIndex": block,
        "start": {"toolUse": {"toolUseId": call_id, "name": name}},
        "p": "abcdefgh",
    }
    pieces = [
        {"contentBlockIndex": block, "delta": {"toolUse": {"input": piece}}, "p": "abc"}
        for piece in ("", *arguments)
    ]
    return b"".join(
        [
            json_event("contentBlockStart", begins),
            *(json_event("contentBlockDelta", piece) for piece in pieces),
            json_event("contentBlockStop", {"contentBlockIndex": block, "p": "abcde"}),
        ]
    )


def bedrock_end(
    reason: str = "end_turn", prompt_tokens: int = 11, completion_tokens: int = 42
) -> bytes:
    """What follows Bedrock's last text."""
    usage = {
        "inputTokens": prompt_tokens,
        "outputTokens": completion_tokens,
        "totalTokens": prompt_tokens + completion_tokens,
    }
    return (
        json_event("contentBlockStop", {"contentBlockIndex": 0, "p": "ab"})
        + json_event("messageStop", {"stopReason": reason, "p": "abcd"})
        + json_event("metadata", {"metrics": {"latencyMs": 512}, "usage": usage, "p": "abc"})
    )


MESSAGE_START = json_event("messageStart", {"role": "assistant", "p": "abcdef"})


def bedrock_answer(texts: Iterable[str], reason: str = "end_turn") -> bytes:
    """A whole answer of Bedrock."""
    return MESSAGE_START + b"".join(text_delta(text) for text in texts) + bedrock_end(reason)


def payload_part(data: bytes) -> bytes:
    """An event of SageMaker: bytes of the container's answer, wherever they were cut."""
    headers = {
        ":event-type": "PayloadPart",
        ":content-type": "application/octet-stream",
        ":message-type": "event",
    }
    return event_stream_message(headers, data)


def chat_chunk(text: str | None = None, **choice: object) -> str:
    """The JSON of one chunk of an OpenAI-style answer."""
    delta = {} if text is None else {"content": text}
    body = {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None} | choice],
    }
    return json.dumps(body, ensure_ascii=False)


def chat_usage(prompt_tokens: int = 11, completion_tokens: int = 42) -> str:
    """The JSON of the chunk behind the last one."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return json.dumps({"object": "chat.completion.chunk", "choices": [], "usage": usage})


def sse(*chunks: str) -> bytes:
    """Chunks as vLLM sends them; `[DONE]` is one too."""
    return "".join(f"data: {chunk}\n\n" for chunk in chunks).encode()


def json_lines(*chunks: str) -> bytes:
    """Chunks as the LMI container sends them; the end is an empty line."""
    return "".join(f"{chunk}\n" for chunk in chunks if chunk != "[DONE]").encode()


def cut_anywhere(data: bytes, random: Random, longest: int) -> list[bytes]:
    """`data` in pieces that know nothing of lines, nor of characters."""
    pieces, start = [], 0
    while start < len(data):
        end = start + random.randint(1, longest)
        pieces.append(data[start:end])
        start = end
    return pieces
