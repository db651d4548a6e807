"""The life of a response. This table is what the code runs and what docs/states.md is drawn from."""

from __future__ import annotations

from enum import StrEnum


class ResponseState(StrEnum):
    """Where a response is; the value is the `status` that clients see."""

    QUEUED = "queued"
    STREAMING = "streaming"
    COMPLETED = "completed"
    ERROR = "error"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether nothing follows."""
        return self in _TERMINAL


class ResponseEvent(StrEnum):
    """What happens to a response."""

    START = "start"  # it was taken from the queue
    RESTART = "restart"  # the attempt failed, the next one begins
    COMPLETE = "complete"  # the model has finished, or a fallback answer stands in
    FAIL = "fail"  # no attempt is left
    CANCEL = "cancel"  # the client said so, or nobody reads it any more


_TERMINAL = frozenset({ResponseState.COMPLETED, ResponseState.ERROR, ResponseState.CANCELLED})

RESPONSE_TRANSITIONS: dict[tuple[ResponseState, ResponseEvent], ResponseState] = {
    (ResponseState.QUEUED, ResponseEvent.START): ResponseState.STREAMING,
    (ResponseState.QUEUED, ResponseEvent.FAIL): ResponseState.ERROR,
    (ResponseState.QUEUED, ResponseEvent.CANCEL): ResponseState.CANCELLED,
    (ResponseState.STREAMING, ResponseEvent.RESTART): ResponseState.STREAMING,
    (ResponseState.STREAMING, ResponseEvent.COMPLETE): ResponseState.COMPLETED,
    (ResponseState.STREAMING, ResponseEvent.FAIL): ResponseState.ERROR,
    (ResponseState.STREAMING, ResponseEvent.CANCEL): ResponseState.CANCELLED,
}


class IllegalTransition(Exception):
    """An event came in a state that has no row for it. The state stays."""


def next_response_state(state: ResponseState, event: ResponseEvent) -> ResponseState:
    """The state after `event`.

    Raises:
        IllegalTransition: the table has no such row.
    """
    try:
        return RESPONSE_TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(f"a {state} response cannot {event}") from None
