"""A sink that keeps what it is given."""

from __future__ import annotations

from evenflow.stream_core.log.entries import Content, Part, joined


class RecordingSink:
    """See `TokenSink`. `refuses_after`: so many contents are taken, the next raises `Full`."""

    def __init__(self, refuses_after: int | None = None) -> None:
        self.contents: list[Content] = []
        self.paused = False
        self.signs_of_life = 0
        self._refuses_after = refuses_after

    @property
    def tokens(self) -> list[str]:
        """What was pushed as text of the answer."""
        return [content for content in self.contents if isinstance(content, str)]

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(self.tokens)

    @property
    def answer(self) -> list[Content]:
        """The answer in its one form."""
        return list(joined(self.contents))

    def alive(self) -> None:
        """See `TokenSink.alive`."""
        self.signs_of_life += 1

    def push(self, token: str) -> None:
        """Take a token."""
        self._take(token)

    def push_part(self, part: Part) -> None:
        """Take a part."""
        self._take(part)

    def _take(self, content: Content) -> None:
        if len(self.contents) == self._refuses_after:
            raise Full
        self.contents.append(content)


class Full(Exception):
    """No more are wanted."""
