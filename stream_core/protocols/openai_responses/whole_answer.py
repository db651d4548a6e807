"""One response as an object of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState, slice_of
from evenflow.stream_core.protocols.openai_responses.ids import PublicResponse
from evenflow.stream_core.protocols.openai_responses.namespaces import namespaces_of
from evenflow.stream_core.protocols.openai_responses.output_items import output_of

_INCOMPLETE = {
    "length": "max_output_tokens",
    "budget": "max_output_tokens",
    "content_filter": "content_filter",
}
"""Why a model ended early → the reason for clients."""
_STATUS = {
    ResponseState.QUEUED: "queued",
    ResponseState.COMPLETED: "completed",
    ResponseState.ERROR: "failed",
    ResponseState.CANCELLED: "cancelled",
}


class ResponseObject:
    """Makes the object of one response.

    Args:
        created: seconds since the epoch.
        echoed: the parameters of the request that the response repeats.
    """

    def __init__(self, response: PublicResponse, created: int, echoed: Mapping[str, Any]) -> None:
        self.response = response
        self.namespaces = namespaces_of(echoed.get("tools") or ())
        """The request's functions in namespaces."""
        self._common = {
            "id": str(response),
            "object": "response",
            "created_at": created,
            **echoed,
        }

    def begun(self) -> dict[str, Any]:
        """The object when nothing has been generated."""
        return self._with("in_progress", [])

    def at_present(self, stream: ResponseStream) -> dict[str, Any]:
        """The object with everything that there is so far, and how it ended if it has."""
        status = status_of(stream)
        contents = slice_of(stream.log.entries, 0).current
        opened = "in_progress" if not stream.log.closed else "incomplete"
        if status == "completed":
            opened = "completed"
        return self._with(
            status,
            output_of(self.response, contents, opened, self.namespaces),
            error=_error(stream.error),
            incomplete_details=_incomplete(stream),
            usage=None if stream.usage is None else usage_of(stream.usage),
        )

    def failed(self, error: dict[str, Any]) -> dict[str, Any]:
        """The object of a response after an error of its stream."""
        return self._with("failed", [], error=_error(error))

    def _with(
        self,
        status: str,
        output: list[dict[str, Any]],
        *,
        error: dict[str, Any] | None = None,
        incomplete_details: dict[str, Any] | None = None,
        usage: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        return {
            **self._common,
            "status": status,
            "error": error,
            "incomplete_details": incomplete_details,
            "output": output,
            "usage": usage,
        }


def status_of(stream: ResponseStream) -> str:
    """The status of a response."""
    if stream.state is ResponseState.COMPLETED and stream.finish_reason in _INCOMPLETE:
        return "incomplete"
    return _STATUS.get(stream.state, "in_progress")


def usage_of(usage: Usage) -> dict[str, Any]:
    """The counts of the model's tokens."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "cache_write_tokens": 0,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _incomplete(stream: ResponseStream) -> dict[str, Any] | None:
    if status_of(stream) != "incomplete" or stream.finish_reason is None:
        return None
    return {"reason": _INCOMPLETE[stream.finish_reason]}


def _error(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if error is None else {"code": error["code"], "message": error["message"]}
