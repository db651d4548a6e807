"""A sink that keeps what it is given."""

from __future__ import annotations


class RecordingSink:
    """See `TokenSink`. `refuses_after`: so many tokens are taken, the next one raises `Full`."""

    def __init__(self, refuses_after: int | None = None) -> None:
        self.tokens: list[str] = []
        self.paused = False
        self.signs_of_life = 0
        self._refuses_after = refuses_after

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.tokens)

    def alive(self) -> None:
        """See `TokenSink.alive`."""
        self.signs_of_life += 1

    def push(self, token: str) -> None:
        """Take a token."""
        if len(self.tokens) == self._refuses_after:
            raise Full
        self.tokens.append(token)


class Full(Exception):
    """No more are wanted."""
