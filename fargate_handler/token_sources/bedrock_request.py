"""Converts a conversation into a request of Bedrock's ConverseStream."""

from __future__ import annotations

import base64
import binascii
import functools
import logging
import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import orjson

from evenflow.fargate_handler.token_sources.bedrock_answer import DETAILS
from evenflow.fargate_handler.token_sources.conversation_forms import (
    alternating_turns,
    system_texts,
)
from evenflow.fargate_handler.token_sources.port import ModelOptions, ModelRequest
from evenflow.stream_core.base.errors import ModelRefused, UnsupportedByModel
from evenflow.stream_core.session.conversation import ToolCall, Turn

_logger = logging.getLogger(__name__)

WITHOUT_EFFECT = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "user",
    }
)
"""They don't affect the answer, so they are left out."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "n": (1,),
    "presence_penalty": (0,),
    "response_format": ({"type": "text"},),
    "top_logprobs": (0,),
}
"""With one of these values they ask for nothing."""

_MODELS_OWN = ("top_k", "reasoning_effort")


def models_own(passed: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that some models have by the same names. They are not the service's own."""
    return {name: passed[name] for name in _MODELS_OWN if name in passed}


def wanted_schema(passed: Mapping[str, Any]) -> dict[str, Any] | None:
    """The name, schema and description of a JSON answer. None: the request has no schema.

    Raises:
        UnsupportedByModel: there is no schema.
    """
    match passed.get("response_format"):
        case {"type": "json_schema", "json_schema": {"name": str(), "schema": dict()} as schema}:
            return dict(schema)
        case {"type": "json_schema"}:
            raise _unsupported_parameter(
                "response_format needs a json_schema with a name and a schema here",
                "response_format",
            )
    return None


def check_passed(passed: Mapping[str, Any]) -> None:
    """Check that every parameter can be left out or be passed to the model.

    Raises:
        UnsupportedByModel: one of them can't.
    """
    for name, value in passed.items():
        if name in _MODELS_OWN or (name in NEUTRAL and value in NEUTRAL[name]):
            continue
        if name in WITHOUT_EFFECT:
            _left_out(name)
        elif name != "response_format" or wanted_schema(passed) is None:
            hint = " (a json_schema is)" if name == "response_format" else ""
            raise _unsupported_parameter(
                f"{name[:100]} is not supported by models on Amazon Bedrock{hint}; leave it out",
                name[:100],
            )


@functools.cache
def _left_out(name: str) -> None:
    """Log that a parameter is left out, once a name."""
    _logger.info("%s of a request is left out: models on Bedrock don't have it", name)


def _unsupported_parameter(what: str, param: str) -> UnsupportedByModel:
    return UnsupportedByModel(
        f"{what}; nothing was generated", code="unsupported_parameter", param=param
    )


_FORMATS = {"png": "png", "jpeg": "jpeg", "jpg": "jpeg", "gif": "gif", "webp": "webp"}
_IMAGE = re.compile(r"data:image/([a-z]+);base64,", re.IGNORECASE)
# What an assistant did other than by calls of functions. Its answer depends on it.
_UNSUPPORTED_FIELDS = ("audio", "function_call", "tool_calls")


def check_turn(turn: Turn, where: str) -> None:
    """Check that Bedrock can take all of a turn.

    Args:
        where: the turn's path in the request, with a dot at its end.

    Raises:
        UnsupportedByModel: it can't take a part of it.
    """
    if turn.role == "function":
        raise _rejection(
            "the role function is not supported by models on Amazon Bedrock", f"{where}role"
        )
    for name in _UNSUPPORTED_FIELDS:
        if name in turn.extra:
            raise _rejection(
                f"{where}{name} is not supported by models on Amazon Bedrock", f"{where}{name}"
            )
    _reasoning_blocks(turn)
    for number, part in enumerate(turn.parts):
        within = f"{where}content.{number}"
        if turn.role == "system" and part["type"] != "text":
            raise _rejection(f"{within} must be text in what the system says", within)
        _block(part, within)


def content_blocks(turn: Turn) -> list[dict[str, Any]]:
    """The text and images of a checked turn. A blank text is left out: it would be refused."""
    if not turn.parts:
        return [{"text": turn.text}] if turn.text.strip() else []
    return [block for part in turn.parts if (block := _block(part, "")) is not None]


def _block(part: dict[str, Any], where: str) -> dict[str, Any] | None:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"text": text} if text.strip() else None
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return {"image": _image(url, where)}
    raise _rejection(
        f"{where}: parts of type {part['type'][:40]!r} are not supported by models on Amazon "
        "Bedrock",
        where,
    )


def _image(url: str, where: str) -> dict[str, Any]:
    head = _IMAGE.match(url)
    kind = _FORMATS.get(head[1].lower()) if head else None
    if head is None or kind is None:
        raise _rejection(
            f"{where}: models on Amazon Bedrock take images only as data URLs "
            "(data:image/png;base64,…), of type png, jpeg, gif or webp",
            where,
        )
    try:
        return {
            "format": kind,
            "source": {"bytes": base64.b64decode(url[head.end() :], validate=True)},
        }
    except binascii.Error:
        raise _rejection(f"{where}: the image's data is not base64", where) from None


def _rejection(what: str, param: str) -> UnsupportedByModel:
    return UnsupportedByModel(
        f"{what}; nothing was generated", code="unsupported_value", param=param
    )


_NO_PARAMETERS = {"type": "object", "properties": {}}
_CHOICES: dict[str, dict[str, Any]] = {"auto": {"auto": {}}, "required": {"any": {}}}


def bedrock_request(request: ModelRequest, most_tokens: int | None) -> dict[str, Any]:
    """The arguments of ConverseStream: the conversation, and the options that Bedrock has.

    It has no seed, and can't forbid parallel calls. A JSON schema for the answer becomes a tool
    that the model must call (`answer_tool`).

    Args:
        most_tokens: the longest answer. None: the model's own limit.

    Raises:
        ModelRefused: a call in the conversation has arguments that are not an object.
        UnsupportedByModel: the request needs what Bedrock lacks.
    """
    options = request.options
    check_passed(options.passed)
    for number, turn in enumerate(request.turns):
        check_turn(turn, f"messages.{number}.")
    call: dict[str, Any] = {
        "inferenceConfig": _inference(options.within(most_tokens)),
        "messages": _messages(request),
    }
    if instructions := system_texts(request.turns):
        call["system"] = [{"text": text} for text in instructions]
    if tools := _tools(options):
        call["toolConfig"] = tools
    if extra_fields := models_own(options.passed):
        call["additionalModelRequestFields"] = extra_fields
    return call


def answer_tool(options: ModelOptions) -> str | None:
    """The name of the tool for an answer of a JSON schema. None if there is no schema."""
    schema = wanted_schema(options.passed)
    if schema is None or isinstance(options.tool_choice, dict):
        return None
    tool_names = {tool["function"]["name"] for tool in options.tools if tool["type"] == "function"}
    return f"{schema['name']}_answer" if schema["name"] in tool_names else str(schema["name"])


def _messages(request: ModelRequest) -> list[dict[str, Any]]:
    # A tool's result is part of the user's message, together with the text that follows it.
    groups = groupby(
        alternating_turns(request.turns),
        lambda entry: "user" if entry[0] == "tool" else entry[0],
    )
    return [
        {
            "role": role,
            "content": [block for _, turns in group for turn in turns for block in _blocks(turn)],
        }
        for role, group in groups
    ]


def _blocks(turn: Turn) -> list[dict[str, Any]]:
    if turn.role == "tool":
        return [{"toolResult": {"toolUseId": turn.tool_call_id, "content": content_blocks(turn)}}]
    blocks = [*_reasoning_blocks(turn), *content_blocks(turn), *map(_tool_use, turn.tool_calls)]
    # The last turn stays, even if it is blank.
    return blocks or [{"text": turn.text}]


def _reasoning_blocks(turn: Turn) -> list[dict[str, Any]]:
    """The reasoning that its model signed or encrypted. Bedrock would reject any other.

    Raises:
        ModelRefused: the encrypted reasoning is not base64.
    """
    details = turn.extra.get(DETAILS)
    blocks = list[dict[str, Any]]()
    for entry in details if isinstance(details, list) and turn.role == "assistant" else ():
        match entry:
            case {"type": "reasoning.text", "text": str(text), "signature": str(signature)}:
                signed = {"text": text, "signature": signature}
                blocks.append({"reasoningContent": {"reasoningText": signed}})
            case {"type": "reasoning.encrypted", "data": str(data), "format": "bedrock"}:
                blocks.append({"reasoningContent": {"redactedContent": _decoded(data)}})
    return blocks


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise ModelRefused(
            "the encrypted reasoning of an earlier answer is not as it was given; nothing was "
            "generated. Send it unchanged, or leave it out",
            code="model_refused",
        ) from None


def _tool_use(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = orjson.loads(call.arguments or "{}")
        orjson.dumps(arguments)  # raises if it is nested so deep that the SDK would fail
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        arguments = None
    if not isinstance(arguments, dict):
        raise ModelRefused(
            "this model takes only JSON objects as the arguments of a call, and those of "
            f"{call.id[:64]!r} are not one; nothing was generated",
            code="model_refused",
        )
    return {"toolUse": {"toolUseId": call.id, "name": call.name, "input": arguments}}


def _tools(options: ModelOptions) -> dict[str, Any] | None:
    # Without tools for "none", which Converse lacks. If the conversation has calls, the service
    # refuses that.
    offered = options.tools if options.tool_choice != "none" else ()
    specs = [{"toolSpec": _tool(tool, f"tools.{number}")} for number, tool in enumerate(offered)]
    choice = _choice(options.tool_choice) if offered else None
    if name := answer_tool(options):
        # The model answers, or it calls one of the others.
        choice = _CHOICES["required"] if specs else {"tool": {"name": name}}
        specs.append({"toolSpec": _spec({**_answer(options), "name": name})})
    if not specs:
        return None
    return {"tools": specs} | ({"toolChoice": choice} if choice else {})


def _answer(options: ModelOptions) -> dict[str, Any]:
    schema = wanted_schema(options.passed) or {}
    return {"parameters": schema.get("schema"), "description": schema.get("description")}


def _choice(choice: str | dict[str, Any] | None) -> dict[str, Any] | None:
    match choice:
        case None:
            return None
        case str() if choice in _CHOICES:
            return _CHOICES[choice]
        case {"type": "function", "function": {"name": name}}:
            return {"tool": {"name": name}}
    raise UnsupportedByModel(
        "this tool_choice is not supported by models on Amazon Bedrock; nothing was generated",
        code="unsupported_value",
        param="tool_choice",
    )


def _tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    if tool["type"] != "function":
        raise UnsupportedByModel(
            f"{where}: only tools of type function are supported by models on Amazon Bedrock; "
            "nothing was generated",
            code="unsupported_value",
            param=where,
        )
    return _spec(tool["function"])


def _spec(function: dict[str, Any]) -> dict[str, Any]:
    tool = {
        "name": function["name"],
        "inputSchema": {"json": function.get("parameters") or _NO_PARAMETERS},
    }
    # Not every model supports the other fields, so they are only sent if the client sent them.
    return tool | {name: function[name] for name in ("description", "strict") if function.get(name)}


def _inference(options: ModelOptions) -> dict[str, Any]:
    config = {
        "maxTokens": options.longest,
        "temperature": options.temperature,
        "topP": options.top_p,
        "stopSequences": list(options.stop) or None,
    }
    return {name: value for name, value in config.items() if value is not None}
