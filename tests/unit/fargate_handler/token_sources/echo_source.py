from __future__ import annotations

from evenflow.fargate_handler.token_sources.model_connection import while_paused
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from evenflow.stream_core.base.errors import UpstreamRejected


class EchoSource:
    """A model that says what it is asked, word by word."""

    continues = False

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        said = request.turns[-1].text
        if not said.strip():
            raise UpstreamRejected("there is nothing to say; ask something", code="upstream_failed")
        for word in said.split(" "):
            await while_paused(sink)
            sink.push(f"{word} ")
        return ModelFinish("stop", None)

    async def close(self) -> None:
        """There is no connection."""
