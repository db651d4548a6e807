"""A response's text as what its client is told of: what the model says, calls, and gives beside that."""

from __future__ import annotations

from stream_core.errors import UpstreamFailed
from stream_core.marked_text import AnswerPart, NotMarked
from stream_core.marked_text_reader import MarkedTextReader


class AnswerReader:
    """Reads a response's text piece by piece."""

    def __init__(self) -> None:
        self._marked = MarkedTextReader()

    @property
    def open_choices(self) -> tuple[int, ...]:
        """The choices that end as the answer does."""
        return self._marked.open_choices

    def read(self, piece: str) -> tuple[AnswerPart, ...]:
        """What `piece` adds, a part a choice; nothing when it ends within a mark.

        Raises:
            UpstreamFailed: it makes no sense, so a worker isn't what it should be.
        """
        try:
            return self._marked.read(piece)
        except NotMarked as wrong:
            raise UpstreamFailed(
                f"the model's answer cannot be read ({wrong}); drop what you have of it, and ask again",
                code="upstream_failed",
            ) from wrong
