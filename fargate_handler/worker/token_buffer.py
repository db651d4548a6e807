"""What a worker's model has given and its handler has not taken yet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from stream_core.response_stream import ResponseFull

_TELL_EVERY_SECONDS = 1.0


class TokenBuffer:
    """The `TokenSink` of one stream.

    Args:
        most_tokens: with so many waiting, the model is paused; also the most that `take` returns.
        most_characters: with so many waiting, the model must stop: it gives all at once, and an answer is no longer than that.
        monotonic: seconds.
    """

    def __init__(self, most_tokens: int, most_characters: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.taken = 0
        """Tokens that the model has given."""
        self._most_tokens = most_tokens
        self._most_characters = most_characters
        self._monotonic = monotonic
        self._silent = True
        """Whether nothing is to be told but tokens."""
        self._told_at = -_TELL_EVERY_SECONDS
        self._waiting: list[str] = []
        self._characters = 0
        self._ended = False
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def paused(self) -> bool:
        """See `TokenSink.paused`."""
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
        if self._silent and self._monotonic() - self._told_at >= _TELL_EVERY_SECONDS:
            self._silent = False
            self._changed.set()

    def end(self) -> None:
        """The model gives no more."""
        self._ended = True
        self._changed.set()

    async def take(self) -> list[str] | None:
        """The tokens that wait, as soon as there are some; none of them for a sign of life, at most once a second.

        None when the model has ended and all are taken.
        """
        while not self._waiting and not self._ended and self._silent:
            self._changed.clear()
            await self._changed.wait()
        if not self._waiting and self._ended:
            return None
        self._silent = True
        self._told_at = self._monotonic()
        most = self._most_tokens
        tokens, self._waiting = self._waiting[:most], self._waiting[most:]
        self._characters -= sum(map(len, tokens))
        return tokens
