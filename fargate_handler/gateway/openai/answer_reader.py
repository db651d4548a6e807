"""A response's text as what its client is told of: what the model says, and what it calls."""

from __future__ import annotations

from stream_core.errors import UpstreamFailed
from stream_core.marked_text import AnswerPart, MarkedTextReader, NotMarked


class AnswerReader:
    """Reads a response's text piece by piece.

    Args:
        tools: whether the request has tools: then the text is marked. Else it is what the model says, whatever it is.
    """

    def __init__(self, *, tools: bool) -> None:
        self._marked = MarkedTextReader() if tools else None

    def read(self, piece: str) -> AnswerPart:
        """What `piece` adds; nothing when it ends within a mark.

        Raises:
            UpstreamFailed: it makes no sense, so a worker isn't what it should be.
        """
        if self._marked is None:
            return AnswerPart(piece)
        try:
            return self._marked.read(piece)
        except NotMarked as wrong:
            raise UpstreamFailed(
                f"what the model called cannot be read ({wrong}); drop what you have of this answer, and ask again",
                code="upstream_failed",
            ) from wrong
