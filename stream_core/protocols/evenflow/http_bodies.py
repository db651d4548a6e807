"""The bodies of HTTP answers, as typed models. The OpenAPI document is made from them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from evenflow.stream_core.base.answer import FinishReason, HistoryBound, Usage
from evenflow.stream_core.http.http_contract import ErrorFields
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.evenflow.messages import (
    ResponseDelta,
    ResponsePart,
    ResponseRestarted,
)
from evenflow.stream_core.protocols.evenflow.part_objects import PartObject


class SessionOpened(BaseModel):
    """A session, with its token and the addresses for further calls.

    The token expires at `expires_at` (ISO 8601, UTC). `suggestions` are questions to begin with.
    """

    session_id: str
    token: str
    expires_at: str
    ws_url: str
    http_url: str
    agent: str
    suggestions: list[str]


class SessionShared(BaseModel):
    """A token that reads, and the addresses at which it does. It expires at `expires_at`."""

    token: str
    expires_at: str
    ws_url: str
    http_url: str


class MessageAccepted(BaseModel):
    """The message is on record. Its response is read under `response_id`.

    `ticket` is there if it was requested: a token that reads this response and does nothing else.
    """

    response_id: str
    message_id: str
    status: ResponseState
    ticket: str = ""


class SaidPart(PartObject):
    """A part of an answer. `at` is how many characters (Unicode code points) of text precede it."""

    at: int


class MessageAnswer(BaseModel):
    """The answer to a message: its text, and its other parts.

    While it grows, it can be resumed after `last_index` with `epoch`.
    """

    text: str
    parts: list[SaidPart]
    last_index: int | None = None
    epoch: int | None = None


class ConversationMessage(BaseModel):
    """A message of the conversation with its answer. `text` is null if it is no longer kept.

    `replaces` is as in `chat.message`. `error` comes with the status `error`. `versions` are
    the ids of all messages in this place, oldest first, this one among them. They are
    there if there are several.
    """

    message_id: str
    previous_message_id: str | None
    response_id: str
    text: str | None
    status: ResponseState
    answer: MessageAnswer
    finish_reason: FinishReason | None = None
    error: ErrorFields | None = None
    replaces: str | None = None
    versions: list[str] | None = None


class ConversationPage(BaseModel):
    """Messages of one version of the conversation, oldest first. `next_before` requests older
    ones: null if there are none.
    """

    messages: list[ConversationMessage]
    next_before: str | None


class ResponseEntries(BaseModel):
    """A range of a response: frames with all of its entries, joined."""

    response_id: str
    frames: list[ResponseDelta | ResponsePart | ResponseRestarted]


class ResponseStatus(BaseModel):
    """The status of a response after a cancel. One that had ended before keeps its status."""

    response_id: str
    status: ResponseState


class TextReplaced(BaseModel):
    """Attempt number `attempt` replaced everything after `from_index` (-1: all of it)."""

    from_index: int
    attempt: int


class QueuedAt(BaseModel):
    """Where the response waits for its model: 1 is the next. As in `chat.response.queued`."""

    position: int
    expected_seconds: float | None = None


class PollMetadata(BaseModel):
    """The next poll sends `next_index` and `epoch`. `error` comes with the status `error`.

    `history_dropped` and `history_dropped_by` are as in `chat.response.start`.
    """

    message_id: str
    next_index: int
    finish_reason: FinishReason | None
    degraded: bool
    epoch: int
    usage: Usage | None
    restarted: TextReplaced | None
    error: ErrorFields | None = None
    queued: QueuedAt | None = None
    history_dropped: int = 0
    history_dropped_by: HistoryBound | None = None


class PolledPart(PartObject):
    """A part at `index`, after `at` characters (Unicode code points) of `new_text`."""

    index: int
    at: int


class PollAnswer(BaseModel):
    """`new_text` is the text from `from_index` to `chunk_index`, `full_text` all of it at the
    end. `events` are the parts between, where there are any.
    """

    response_id: str
    new_text: str
    chunk_index: int
    status: ResponseState
    metadata: PollMetadata
    full_text: str | None = None
    events: list[PolledPart] | None = None


class Health(BaseModel):
    """Whether the node takes new connections (otherwise 503), how many it has, and its load."""

    status: Literal["serving", "draining", "full", "store_lost", "isolated"]
    connections: int
    lease_in_force: bool = Field(
        description="false: it can't reach the store, so other nodes may go on with its answers"
    )
    load_percent: float = Field(
        description="the largest share of a limit that is in use, mean of the last minute"
    )
    loaded_by: str = Field(description="what has the largest share now; empty in the first second")


class UsedOfDay(BaseModel):
    """What the answers of one day of UTC and one model used together.

    `cached_tokens` are among the input's, `reasoning_tokens` among the output's. `cost_usd`
    is null where the model has no price.
    """

    day: str
    model: str
    answers: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    cost_usd: float | None


class BudgetLeft(BaseModel):
    """A budget in its period of UTC, a day or a month, which ends at `ends_at` (ISO 8601).

    `of` is its owner. `committed` is what was used and what is reserved for running answers.
    """

    of: Literal["tenant", "key", "user"]
    unit: Literal["tokens", "usd"]
    period: str
    bound: float
    committed: float
    left: float
    ends_at: str


class UsageReport(BaseModel):
    """What a tenant, or one of its users, has used from one day to another, and has left.

    `answers_reserved` are the tenant's answers that run and have something reserved.
    """

    tenant: str
    user: str | None
    days: list[UsedOfDay]
    budgets: list[BudgetLeft]
    answers_reserved: int
