"""Reads the conversation and the tools in the payload of a chat message."""

from __future__ import annotations

from evenflow.fargate_handler.gateway.bodies.chat_messages import (
    check_calls_answered,
    tool_options,
    turn_of,
)
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.fargate_handler.token_sources.port import ModelOptions
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.evenflow.messages import MessagePayload

_FUNCTION = "function"


def conversation_in(payload: MessagePayload) -> WholeRequest | None:
    """The conversation and the tools of a message. None: it has neither.

    Raises:
        InvalidRequest: one of the messages or tools is wrong.
    """
    try:
        return _brought_by(payload)
    except InvalidRequest as wrong:
        where = f"payload.{wrong.param}" if wrong.param else None
        raise InvalidRequest(wrong.message, code=wrong.code, param=where) from None


def _brought_by(payload: MessagePayload) -> WholeRequest | None:
    options = tool_options(payload)
    for place, tool in enumerate(options.get("tools", ())):
        if tool["type"] != _FUNCTION:
            raise InvalidRequest(
                f"tools.{place}.type must be {_FUNCTION}, a tool that the client runs; nothing was "
                "generated",
                code="unsupported_value",
                param=f"tools.{place}.type",
            )
    messages = payload.messages or []
    if not (messages or options):
        return None
    turns = tuple(turn_of(message, f"messages.{place}.") for place, message in enumerate(messages))
    check_calls_answered(messages)
    return WholeRequest(turns, ModelOptions(**options))
