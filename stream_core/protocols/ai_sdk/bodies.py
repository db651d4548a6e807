"""The bodies of AI SDK's chat calls, as typed models. The OpenAPI document is made from them.

Answers are not built from these models: `protocols/ai_sdk/encoder.py` writes their bytes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from evenflow.stream_core.protocols.openai_chat.parameters import AnswerParameters, Camel

LONGEST_ID = 256


class Approval(Camel):
    """A person's decision about a call that needs an approval."""

    approved: bool | None = None
    reason: str | None = None


class UIPart(Camel):
    """A part of a message, of any type. Each type has some of these fields, or others."""

    model_config = Camel.model_config | ConfigDict(extra="allow")

    type: str
    text: str = ""
    media_type: str = ""
    filename: str | None = None
    url: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    state: str = ""
    input: Any = None
    output: Any = None
    error_text: str = ""
    approval: Approval | None = None
    provider_metadata: dict[str, dict[str, Any]] | None = None
    call_provider_metadata: dict[str, dict[str, Any]] | None = None
    parts: list[UIPart] | None = None


class UIMessage(Camel):
    """A message as `useChat` has it. Its other fields are kept: its `id`, and its `metadata`."""

    model_config = Camel.model_config | ConfigDict(extra="allow")

    role: Literal["system", "user", "assistant"]
    parts: list[UIPart]


class ChatRequest(AnswerParameters):
    """A request of `useChat`. The answer's parameters are those in its transport's `body`."""

    id: Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
    messages: Annotated[list[UIMessage], Field(min_length=1)]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"


CHAT_REQUEST: TypeAdapter[ChatRequest] = TypeAdapter(ChatRequest)


class StopRequest(Camel):
    """A request of a stop button. With `activeStreamId`, only that answer is stopped."""

    active_stream_id: str | None = None


class ChatMessages(Camel):
    """The messages of a chat, oldest first. `nextBefore` is the parameter for older ones."""

    messages: list[UIMessage]
    next_before: str | None


STOP_REQUEST: TypeAdapter[StopRequest] = TypeAdapter(StopRequest)


class Stopped(BaseModel):
    """Nothing runs any more."""

    success: Literal[True] = True


class UIChunk(BaseModel):
    """One chunk of the UI message stream. Each type has further fields."""

    model_config = ConfigDict(extra="allow")

    type: str
