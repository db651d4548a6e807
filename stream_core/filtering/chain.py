"""Several filters one behind the other."""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.stream_core.filtering.port import StopAnswer, TextFilter


class FilterChain:
    """A `TextFilter`: each filter is given what the one before it has cleared."""

    __slots__ = ("_filters",)

    def __init__(self, filters: Sequence[TextFilter]) -> None:
        self._filters = filters

    def push(self, text: str) -> str:
        """See `TextFilter.push`."""
        return self._pass_on(text, 0)

    def finish(self) -> str:
        """See `TextFilter.finish`."""
        text = ""
        for place, each in enumerate(self._filters):
            try:
                text = (each.push(text) if text else "") + each.finish()
            except StopAnswer as stop:
                raise StopAnswer(self._pass_on(stop.cleared, place + 1)) from None
        return text

    def _pass_on(self, text: str, first: int) -> str:
        for place, each in enumerate(self._filters[first:], first):
            if not text:
                break
            try:
                text = each.push(text)
            except StopAnswer as stop:
                raise StopAnswer(self._pass_on(stop.cleared, place + 1)) from None
        return text
