"""The call by the protocol of Durable Streams."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, RootModel

from evenflow.stream_core.http import routes
from evenflow.stream_core.http.error_codes import (
    ANY,
    LIVE,
    READING,
    RESPONSE,
    STREAMING,
    TOKEN,
)
from evenflow.stream_core.http.operation import (
    RESPONSE_ID,
    Answer,
    Operation,
    Parameter,
    merged_codes,
)
from evenflow.stream_core.protocols.durable_streams.offsets import BEGINNING, NOW, OFFSET_PATTERN
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
    """The reader's position after the previous message. At the end it has no cursor."""

    model_config = ConfigDict(populate_by_name=True)

    next_offset: str = Field(alias="streamNextOffset")
    cursor: str | None = Field(default=None, alias="streamCursor")
    up_to_date: bool | None = Field(default=None, alias="upToDate")
    closed: bool | None = Field(default=None, alias="streamClosed")


_PLACE = ("Stream-Next-Offset", "Stream-Cursor", "Stream-Up-To-Date", "Stream-Closed")

STREAM_OPERATION = Operation(
    routes.STREAM,
    "readStream",
    "Read a response by Durable Streams' protocol. `HEAD` returns where it ends.",
    answers=(
        Answer(
            200,
            "Messages from `offset` on. With `live=sse` `data` events with them, each followed "
            "by a `control` event.",
            StreamMessages,
            headers=("Evenflow-Via", "ETag", *_PLACE),
            chunks=(StreamMessages, StreamControl),
            done=False,
        ),
        Answer(204, "With `live=long-poll`: nothing new.", content_type="", headers=_PLACE),
        Answer(304, "The same as with `If-None-Match`.", content_type="", headers=_PLACE),
    ),
    errors=merged_codes(ANY, TOKEN, RESPONSE, READING, LIVE, STREAMING),
    parameters=(
        RESPONSE_ID,
        Parameter(
            "offset",
            "query",
            f"Where to begin: `{BEGINNING}`, a `Stream-Next-Offset`, or `{NOW}`.",
            {"type": "string", "pattern": f"^{BEGINNING}$|^{NOW}$|{OFFSET_PATTERN}"},
        ),
        Parameter("live", "query", "How to continue at the end.", {"enum": ["long-poll", "sse"]}),
        Parameter("cursor", "query", "The last `Stream-Cursor`.", {"type": "string"}),
    ),
)
