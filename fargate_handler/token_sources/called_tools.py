"""What a model says and calls, as the marked text of its answer."""

from __future__ import annotations

import secrets

from stream_core.marked_text import MarkedTextWriter


class CalledTools:
    """Marks the fragments that a model's server sends. What servers leave out of them is filled in."""

    def __init__(self) -> None:
        self._writer = MarkedTextWriter()
        self._begun: set[int] = set()

    def text(self, text: str) -> str:
        """More of what the model says."""
        return self._writer.text(text)

    def fragment(self, index: int | None, call_id: str, name: str, arguments: str) -> str:
        """More of a call. Some servers repeat its name and its id, or don't count, but send each call with its name, once.

        Raises:
            ValueError, TypeError: it is no fragment of a call.
        """
        if index is None:
            index = len(self._begun) if name else len(self._begun) - 1
        if not isinstance(index, int) or not all(isinstance(said, str) for said in (call_id, name, arguments)):
            raise TypeError("this is no fragment of a call")
        if index not in self._begun and not call_id:
            # Whoever answers the call needs one.
            call_id = f"call_{secrets.token_hex(12)}"
        marked = self._writer.call(index, arguments, call_id, name)
        self._begun.add(index)
        return marked
