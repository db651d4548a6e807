"""A token source that recites the same text whenever it is asked the same, a token each tenth of
a second.
"""

from __future__ import annotations

import asyncio

from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink

TOKEN_SECONDS = 0.1


def recited(question: str, tokens: int = 200) -> str:
    """What the answer to a question is."""
    return "".join(f"{question}{number} " for number in range(tokens))


class RecitingSource:
    """See `TokenSource`.

    Args:
        continues: see `TokenSource`.
        tokens: how long every answer is.
    """

    def __init__(self, *, continues: bool, tokens: int = 200) -> None:
        self.continues = continues
        self.calls = 0
        self._tokens = tokens

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """See `TokenSource.generate`."""
        self.calls += 1
        text = recited(request.turns[-1].text, self._tokens)
        assert text.startswith(request.prefix), "the prefix is the beginning of the answer"
        rest = text[len(request.prefix) :]
        while rest:
            await asyncio.sleep(TOKEN_SECONDS)
            token, space, rest = rest.partition(" ")
            sink.push(token + space)
        return ModelFinish("stop", None)

    async def close(self) -> None:
        """Nothing to release."""
