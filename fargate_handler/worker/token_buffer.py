"""What a worker's model has given and its handler has not taken yet."""

from __future__ import annotations

import asyncio

from stream_core.response_stream import ResponseFull


class TokenBuffer:
    """The `TokenSink` of one stream.

    Args:
        most_tokens: with so many waiting, the model is held; also the most that `take` returns.
        most_characters: with so many waiting, the model must stop: it gives all at once, and an answer is no longer than that.
    """

    def __init__(self, most_tokens: int, most_characters: int) -> None:
        self.taken = 0
        """Tokens that the model has given."""
        self.signs_of_life = 0
        """Other signs of life that it has given."""
        self._most_tokens = most_tokens
        self._most_characters = most_characters
        self._waiting: list[str] = []
        self._characters = 0
        self._ended = False
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def held(self) -> bool:
        """See `TokenSink.held`."""
        return len(self._waiting) >= self._most_tokens

    def push(self, token: str) -> None:
        """See `TokenSink.push`.

        Raises:
            ResponseFull: the longest answer there may be waits here already.
        """
        if self._characters >= self._most_characters:
            raise ResponseFull
        self._waiting.append(token)
        self._characters += len(token)
        self.taken += 1
        self._changed.set()

    def alive(self) -> None:
        """See `TokenSink.alive`."""
        self.signs_of_life += 1

    def end(self) -> None:
        """The model gives no more."""
        self._ended = True
        self._changed.set()

    async def take(self) -> list[str]:
        """The tokens that wait, as soon as there are some; none when the model has ended and all are taken."""
        while not self._waiting and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        most = self._most_tokens
        tokens, self._waiting = self._waiting[:most], self._waiting[most:]
        self._characters -= sum(map(len, tokens))
        return tokens
