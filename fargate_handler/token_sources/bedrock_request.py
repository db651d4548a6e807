"""A request as ConverseStream takes it."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import orjson

from fargate_handler.token_sources.alternating_turns import alternating_turns
from fargate_handler.token_sources.port import ModelOptions, ModelRequest
from fargate_handler.token_sources.system_texts import system_texts
from stream_core.conversation import ToolCall, Turn
from stream_core.errors import ModelRefused

_NO_PARAMETERS = {"type": "object", "properties": {}}
_CHOICES: dict[str, dict[str, Any]] = {"auto": {"auto": {}}, "required": {"any": {}}}


def bedrock_request(request: ModelRequest, most_tokens: int | None) -> dict[str, Any]:
    """Its conversation, and what of its options Bedrock has: no seed, and no word on how many tools are called at once.

    Args:
        most_tokens: the longest answer; None for the model's own limit.

    Raises:
        ModelRefused: the conversation has a call whose arguments are no object.
    """
    options = request.options
    call: dict[str, Any] = {"inferenceConfig": _inference(options.within(most_tokens)), "messages": _messages(request)}
    if instructions := system_texts(request.turns):
        call["system"] = [{"text": text} for text in instructions]
    # "none" can't be said otherwise. In a conversation that has calls, the service insists on tools, and says so.
    if options.tools and options.tool_choice != "none":
        call["toolConfig"] = _tools(options)
    return call


def _messages(request: ModelRequest) -> list[dict[str, Any]]:
    # What a tool gave is said by the user, together with what the user says next.
    speaking = groupby(alternating_turns(request.turns), lambda said: "user" if said[0] == "tool" else said[0])
    return [
        {"role": role, "content": [block for _, turns in said for turn in turns for block in _blocks(turn)]}
        for role, said in speaking
    ]


def _blocks(turn: Turn) -> list[dict[str, Any]]:
    if turn.role == "tool":
        # A blank text would be refused.
        content = [{"text": turn.text}] if turn.text.strip() else []
        return [{"toolResult": {"toolUseId": turn.tool_call_id, "content": content}}]
    text = [{"text": turn.text}] if turn.text.strip() or not turn.tool_calls else []
    return [*text, *map(_tool_use, turn.tool_calls)]


def _tool_use(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = orjson.loads(call.arguments or "{}")
        orjson.dumps(arguments)  # which refuses what is nested so deep that the SDK would fail on it
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        arguments = None
    if not isinstance(arguments, dict):
        raise ModelRefused(
            f"this model takes only JSON objects as the arguments of a call, and those of {call.id[:64]!r} are none; "
            "nothing was generated",
            code="model_refused",
        )
    return {"toolUse": {"toolUseId": call.id, "name": call.name, "input": arguments}}


def _tools(options: ModelOptions) -> dict[str, Any]:
    config: dict[str, Any] = {"tools": [{"toolSpec": _tool(tool["function"])} for tool in options.tools]}
    choice = options.tool_choice
    if isinstance(choice, dict):
        config["toolChoice"] = {"tool": {"name": choice["function"]["name"]}}
    elif choice is not None:
        config["toolChoice"] = _CHOICES[choice]
    return config


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    tool = {"name": function["name"], "inputSchema": {"json": function.get("parameters") or _NO_PARAMETERS}}
    # Not each model knows the others: what wasn't asked for isn't sent.
    return tool | {name: function[name] for name in ("description", "strict") if function.get(name)}


def _inference(options: ModelOptions) -> dict[str, Any]:
    config = {
        "maxTokens": options.longest,
        "temperature": options.temperature,
        "topP": options.top_p,
        "stopSequences": list(options.stop) or None,
    }
    return {name: value for name, value in config.items() if value is not None}
