"""The parameters of an answer in requests of chats' interfaces, by the names of OpenAI's API."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from evenflow.stream_core.base.agents import LONGEST_USER, MessageParams, Metadata
from evenflow.stream_core.protocols.openai_chat.bodies import OfferedTool


class Camel(BaseModel):
    """A body with names `likeThis`. Fields that are not named here are ignored."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", alias_generator=to_camel, validate_by_name=True
    )


class AnswerParameters(MessageParams):
    """The parameters of the answer. The agent or the model has the defaults.

    `model` is a public name of the model, `user` and `metadata` go to its server as headers.
    """

    model: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    tools: list[OfferedTool] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    user: Annotated[str, Field(max_length=LONGEST_USER)] | None = None
    metadata: Metadata | None = None
