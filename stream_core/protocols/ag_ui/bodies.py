"""The bodies of AG-UI 1.0, as typed models. The OpenAPI document is made from them.

Answers are not built from these models: `protocols/ag_ui/encoder.py` writes their bytes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from evenflow.stream_core.protocols.openai_chat.bodies import RequestToolCall
from evenflow.stream_core.protocols.openai_chat.parameters import AnswerParameters, Camel

LONGEST_ID = 256
_Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]


class PartSource(Camel):
    """The source of a part's bytes: in `value`, or at its address."""

    type: Literal["data", "url", "file"]
    value: str
    mime_type: str = ""


class RunPart(Camel):
    """A part of a message: text, or an image, audio, video or document."""

    type: str
    text: str = ""
    source: PartSource | None = None


class RunMessage(Camel):
    """A message of the conversation. All of its fields are kept, to be sent back."""

    model_config = ConfigDict(extra="allow")

    id: str
    role: Literal["developer", "system", "assistant", "user", "tool", "activity", "reasoning"]
    content: Any = None
    tool_calls: list[RequestToolCall] | None = None
    tool_call_id: str = ""
    error: str | None = None
    encrypted_value: Any = None
    metadata: dict[str, Any] | None = None


class RunTool(Camel):
    """A tool that the model may call. `parameters` is a JSON schema of its arguments."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    description: str = ""
    parameters: dict[str, Any] | None = None


class RunContext(Camel):
    """A fact for the model besides the conversation."""

    description: str
    value: str


class RunRequest(Camel):
    """AG-UI's `RunAgentInput`. `forwardedProps` may have the answer's parameters.

    `state` is the client's, and not sent to the model.
    """

    thread_id: _Id
    run_id: _Id
    messages: list[RunMessage]
    tools: list[RunTool] = Field(default_factory=list)
    context: list[RunContext] = Field(default_factory=list)
    forwarded_props: Any = None
    resume: list[Any] | None = None


RUN_REQUEST: TypeAdapter[RunRequest] = TypeAdapter(RunRequest)
FORWARDED: TypeAdapter[AnswerParameters] = TypeAdapter(AnswerParameters)
CONTENT_PARTS: TypeAdapter[list[RunPart]] = TypeAdapter(list[RunPart])


class RunName(Camel):
    """Names a run."""

    thread_id: _Id
    run_id: _Id


RUN_NAME: TypeAdapter[RunName] = TypeAdapter(RunName)


class RunEvent(BaseModel):
    """One event of a run. Each type has further fields."""

    model_config = ConfigDict(extra="allow")

    type: str
