"""What the events of one answer of Bedrock add up to."""

from __future__ import annotations

from fargate_handler.token_sources.aws_client import Event
from fargate_handler.token_sources.aws_failures import NOT_READABLE, unreadable_event
from fargate_handler.token_sources.port import ModelFinish, TokenSink
from stream_core.errors import ModelRefused, UpstreamFailed
from stream_core.messages import Usage

_CUT_SHORT = ("max_tokens", "model_context_window_exceeded")
_REFUSED = ("guardrail_intervened", "content_filtered")
_MALFORMED = ("malformed_model_output", "malformed_tool_use")


class BedrockAnswer:
    """Takes the events of ConverseStream and pushes their text into `sink`."""

    def __init__(self, sink: TokenSink) -> None:
        self._sink = sink
        self._reason: str | None = None
        self._usage: Usage | None = None

    def take(self, event: Event) -> None:
        """One event.

        Raises:
            UpstreamFailed: it lacks what it must have.
        """
        try:
            text = self._read(event)
        except NOT_READABLE as wrong:
            raise unreadable_event() from wrong
        if text:
            self._sink.push(text)

    def _read(self, event: Event) -> str | None:
        if "contentBlockDelta" in event:
            # Reasoning and citations are deltas too, and no text of the answer.
            text = event["contentBlockDelta"]["delta"].get("text")
            if text is not None and not isinstance(text, str):
                raise TypeError("the delta is not text")
            return text
        if "messageStop" in event:
            self._reason = event["messageStop"]["stopReason"]
        elif "metadata" in event:
            usage = event["metadata"]["usage"]
            self._usage = Usage(prompt_tokens=usage["inputTokens"], completion_tokens=usage["outputTokens"])
        return None

    def finish(self) -> ModelFinish:
        """The end of the stream.

        Raises:
            UpstreamFailed: it came before the model had finished, or what the model made is unusable.
            ModelRefused: a guardrail or a filter stopped the model.
        """
        if self._reason in _REFUSED:
            raise ModelRefused(
                f"the model's provider stopped the answer ({self._reason}); what was delivered was kept",
                code="model_refused",
            )
        if self._reason is None or self._reason in _MALFORMED:
            raise UpstreamFailed(
                "the model broke off in the middle of its answer; what came before was kept", code="upstream_failed"
            )
        return ModelFinish("length" if self._reason in _CUT_SHORT else "stop", self._usage)
