"""What readers of Durable Streams are given, as typed models. The OpenAPI document is made from
them.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, RootModel

from evenflow.stream_core.protocols.evenflow.messages import (
    ResponseCompleted,
    ResponseDelta,
    ResponseFailed,
    ResponsePart,
    ResponseRestarted,
)

StreamMessage = (
    ResponseDelta | ResponsePart | ResponseRestarted | ResponseCompleted | ResponseFailed
)


class StreamMessages(RootModel[list[StreamMessage]]):
    """Messages of a response: a frame for each entry, and at its end the frame that ends it."""


class StreamControl(BaseModel):
    """Where the reader is after the message before. No cursor comes with the end."""

    model_config = ConfigDict(populate_by_name=True)

    next_offset: str = Field(alias="streamNextOffset")
    cursor: str | None = Field(default=None, alias="streamCursor")
    up_to_date: bool | None = Field(default=None, alias="upToDate")
    closed: bool | None = Field(default=None, alias="streamClosed")
