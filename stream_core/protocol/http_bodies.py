"""The bodies of HTTP answers, as typed models. `stream_core.api_documents` describes them from here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from stream_core.log.response_log import ResponseState
from stream_core.protocol.http_contract import ErrorFields
from stream_core.protocol.messages import FinishReason, Usage


class SessionOpened(BaseModel):
    """A session, the token that opens everything else until `expires_at` (ISO 8601, UTC), and where to go on.

    `agent` answers it; `suggestions` are questions to begin with.
    """

    session_id: str
    token: str
    expires_at: str
    ws_url: str
    http_url: str
    agent: str
    suggestions: list[str]


class MessageAccepted(BaseModel):
    """The message is kept; its answer is read under `response_id`."""

    response_id: str
    message_id: str
    status: ResponseState


class ResponseStatus(BaseModel):
    """Where a response is after it was asked to stop: one that had ended before keeps its status."""

    response_id: str
    status: ResponseState


class TextReplaced(BaseModel):
    """The text behind `from_index` (-1: all of it) was replaced by attempt number `attempt`."""

    from_index: int
    attempt: int


class PollMetadata(BaseModel):
    """What a poll tells beside the text. Ask next with `next_index` and `epoch`; `error` is there with status `error`."""

    message_id: str
    next_index: int
    finish_reason: FinishReason | None
    degraded: bool
    epoch: int
    usage: Usage | None
    restarted: TextReplaced | None
    error: ErrorFields | None = None


class PollAnswer(BaseModel):
    """`new_text` is the deltas from the poll's `from_index` to `chunk_index`, joined; `full_text` is there after the end."""

    response_id: str
    new_text: str
    chunk_index: int
    status: ResponseState
    metadata: PollMetadata
    full_text: str | None = None


class Health(BaseModel):
    """Whether the task takes new connections (503 where it doesn't), and how many it has."""

    status: Literal["serving", "draining", "full"]
    connections: int
