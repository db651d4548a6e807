"""Requests of the protocols that people's software speaks: whole ones, with odd values in them.

Their heads are right, so each is answered by its endpoint. Names in them stand for what
`OpenSession` has.
"""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import quote

from tests.fuzz.odd_json import odd_json
from tests.fuzz.open_session import OpenSession

_TOOL = {"name": "look", "description": "Looks.",
         "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}  # fmt: skip
_RESPONSE: dict[str, Any] = {
    "model": "default", "stream": True, "instructions": "Be short.", "temperature": 0.5,
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "look"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}],
         "encrypted_content": "evenflow:reasoning_content"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
        {"role": "user", "content": "parts 3"},
    ],
    "tools": [{"type": "function", **_TOOL}], "tool_choice": {"type": "function", "name": "look"},
    "reasoning": {"effort": "low", "summary": "auto"}, "metadata": {"a": "b"}, "user": "u",
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
    "include": ["reasoning.encrypted_content"], "top_logprobs": 2, "max_output_tokens": 99,
}  # fmt: skip
_NEXT_RESPONSE: dict[str, Any] = {
    "model": "default", "input": "parts 2", "previous_response_id": "resp_x", "store": False,
}  # fmt: skip
_BACKGROUND = {"model": "default", "input": "parts 1", "background": True, "stream": False}
_REFERENCE: dict[str, Any] = {
    "model": "default",
    "input": [{"type": "item_reference", "id": "msg_x"}, {"role": "user", "content": "parts 0"}],
}
_CHAT: dict[str, Any] = {
    "id": "chat", "trigger": "submit-message", "model": "default", "temperature": 0.5,
    "messages": [
        {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "look"}]},
        {"id": "a1", "role": "assistant", "parts": [
            {"type": "step-start"}, {"type": "reasoning", "text": "hm", "state": "done",
             "providerMetadata": {"evenflow": {"field": "reasoning_content"}}},
            {"type": "tool-look", "toolCallId": "c1", "state": "output-available",
             "input": {"a": 1}, "output": {"seen": [1, 2]}}, {"type": "text", "text": "So."}]},
        {"id": "u2", "role": "user", "parts": [
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
            {"type": "text", "text": "parts 2"}]},
    ],
    "tools": [{"type": "function", "function": _TOOL}],
}  # fmt: skip
_RUN: dict[str, Any] = {
    "threadId": "thread", "runId": "run", "state": {"a": 1}, "forwardedProps": {"temperature": 1},
    "context": [{"description": "where", "value": "here"}], "tools": [_TOOL],
    "messages": [
        {"id": "u1", "role": "user", "content": "look"},
        {"id": "a1", "role": "assistant", "content": "", "toolCalls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
         "metadata": {"evenflow": "1.2"}},
        {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "seen"},
        {"id": "u2", "role": "user", "content": [{"type": "text", "text": "look"}]},
        {"id": "u3", "role": "user", "content": "parts 2"},
    ],
}  # fmt: skip
_ANTHROPIC: dict[str, Any] = {
    "model": "default", "max_tokens": 99, "stream": True, "system": [{"type": "text", "text": "s"}],
    "thinking": {"type": "enabled", "budget_tokens": 2_000}, "stop_sequences": ["END"],
    "metadata": {"user_id": "u"}, "tool_choice": {"type": "tool", "name": "look"},
    "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "evenflow:reasoning_content"},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "x"}],
             "is_error": False}, {"type": "text", "text": "look"}]},
        {"role": "assistant", "content": "So."},
        {"role": "user", "content": "parts 2"},
    ],
}  # fmt: skip
_BODIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/responses", _RESPONSE),
    ("/v1/responses", _NEXT_RESPONSE),
    ("/v1/responses", _BACKGROUND),
    ("/v1/responses", _REFERENCE),
    ("/v1/messages", _ANTHROPIC),
    ("/v1/messages/count_tokens", _ANTHROPIC),
    ("/api/chat", _CHAT),
    ("/agui", _RUN),
)
_NAMES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("GET", "/v1/responses/resp_x?stream=true&starting_after=@", {}),
    ("GET", "/v1/responses/resp_x?stream=@", {}),
    ("GET", "/v1/responses/resp_x/input_items?limit=@&after=@&order=@", {}),
    ("POST", "/v1/responses/resp_x/cancel", {}),
    ("DELETE", "/v1/responses/resp_x", {}),
    ("GET", "/api/chat/chat", {}),
    ("GET", "/api/chat/chat/stream", {}),
    ("GET", "/api/chat/chat/stream?response_id=rsp_x", {}),
    ("POST", "/api/chat/chat/stop", {"activeStreamId": "rsp_x"}),
    ("POST", "/agui/stop", {"threadId": "thread", "runId": "run"}),
    ("GET", "/streams/rsp_x?offset=@&live=@&cursor=@", {}),
    ("GET", "/streams/rsp_x?offset=@", {}),
    ("HEAD", "/streams/rsp_x", {}),
    ("GET", "/session/ses_x/messages?limit=@&before=@", {}),
    ("DELETE", "/session/ses_x", {}),
    ("PUT", "/v1/messages", {}),
    ("GET", "/v1/messages/batches/@", {}),
)  # fmt: skip
_QUERY = ("0", "-1", "1", "5", "true", "false", "now", "1_0", "1_3", "1_end", "99_99", "sse",
          "long-poll", "asc", "desc", "m1", "msg_x", "rsp_x", "18446744073709551616", "9" * 30,
          "9007199254740993", "1e3", "NaN", "", " 7 ", "٣", "\x00", "%", "\udcff",
          "x" * 300)  # fmt: skip
_CURSORS = ("-1", "0", "3", "1.2", "5.2", "1.end", "-1.end", "0.0", "9" * 15, "9" * 30, "٣", "x",
            "1_0", "", "3.99999", "\xff")  # fmt: skip
_KEYS = ("k1", "k2", "k3", "k" * 255, "k" * 256, "\xff")
_VERSIONS = ("2023-01-01", "2023-06-01", "never")


def protocol_request(chance: random.Random, session: OpenSession) -> bytes:
    """A request to any of these endpoints."""
    if chance.random() < 0.6:
        path, right = chance.choice(_BODIES)
        return _request("POST", path, odd_json(right, chance), chance, session)
    method, path, right = chance.choice(_NAMES)
    body = odd_json(right, chance) if right else b""
    if chance.random() < 0.2:
        path = path.replace("resp_x", "resp_" + _id(chance)).replace("rsp_x", _id(chance))
        path = path.replace("/chat/chat/", f"/chat/{_id(chance)}/")
    return _request(method, _with_queries(path, chance), body, chance, session)


def response_message(chance: random.Random) -> bytes:
    """A message of the Responses API's WebSocket."""
    right = {"type": "response.create", **chance.choice((_RESPONSE, _NEXT_RESPONSE, _REFERENCE))}
    return odd_json(right, chance)


def _with_queries(path: str, chance: random.Random) -> str:
    head, *rest = path.split("@")
    for part in rest:
        head += quote(chance.choice(_QUERY), errors="surrogateescape") + part
    return head


def _id(chance: random.Random) -> str:
    names = ("x", "msg_x", "rsp_" + "0" * 32, "f" * 72, "%00", "%ff", "%2e%2e", "x" * 300, "_", "0")
    return chance.choice(names)


def _request(
    method: str, path: str, body: bytes, chance: random.Random, session: OpenSession
) -> bytes:
    body = session.fill(body)
    more = {
        "Last-Event-ID": chance.choice(_CURSORS) if chance.random() < 0.3 else None,
        "Idempotency-Key": chance.choice(_KEYS) if chance.random() < 0.3 else None,
        "anthropic-version": chance.choice(_VERSIONS) if "messages" in path else None,
        "Evenflow-Timeout-Ms": chance.choice(_QUERY[:4]) if chance.random() < 0.1 else None,
        "Content-Length": str(len(body)) if method == "POST" else None,
        # Half of them come without a token, as the clients of an open server.
        "Authorization": "Bearer {token}" if chance.random() < 0.5 else "Bearer sk-x",
    }
    lines = [f"{name}: {value}" for name, value in more.items() if value is not None]
    head = "\r\n".join((f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *lines))
    # The server takes heads of UTF-8, and of anything else.
    written = head.encode(chance.choice(("utf-8", "latin-1")), "replace")
    return session.fill(written) + b"\r\n" + _JSON + b"\r\n\r\n" + body


_JSON = b"Content-Type: application/json\r\nConnection: close"
