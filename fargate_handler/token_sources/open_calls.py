"""The state of tool calls that are still arriving: open ones, and ones that can't begin yet."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson

from evenflow.fargate_handler.token_sources.chunk_fields import whole_characters
from evenflow.stream_core.log.returned_fields import Fields, added

# The most attempts to parse one call's arguments, since each takes time. A call whose arguments
# are still incomplete then ends with the answer.
_MOST_READINGS = 8


@dataclass(slots=True)
class OpenCall:
    """A call that has begun and not ended.

    Args:
        is_custom: whether its tool takes any text, so that its end can't be detected.
    """

    is_custom: bool
    _pieces: list[str] = field(default_factory=list)
    _pieces_read: int = 0
    _readings: int = 0

    def add(self, arguments: str) -> None:
        """Add more arguments."""
        if arguments and not self.is_custom:
            self._pieces.append(arguments)

    def is_whole(self) -> bool:
        """Whether its arguments are complete JSON, so that only white space can follow."""
        if len(self._pieces) == self._pieces_read or self._readings == _MOST_READINGS:
            return False
        self._pieces = ["".join(self._pieces)]
        self._pieces_read = 1
        self._readings += 1
        try:
            return isinstance(orjson.loads(whole_characters(self._pieces[0])), dict | list)
        except ValueError:
            return False


@dataclass(slots=True)
class WaitingCall:
    """The fragments of a call that can't begin yet, mostly since its name is missing."""

    call_id: str = ""
    name: str = ""
    is_custom: bool = False
    extra: Fields = field(default_factory=dict)
    """Further fields to send back to the server."""
    _pieces: list[str] = field(default_factory=list)

    def add(
        self,
        call_id: str,
        name: str,
        arguments: str,
        *,
        is_custom: bool,
        extra: Fields | None = None,
    ) -> None:
        """Add a fragment."""
        if extra:
            self.extra = added(self.extra, extra)
        self.call_id = self.call_id or call_id
        self.name = self.name or name
        self._pieces.append(arguments)
        self.is_custom = self.is_custom or is_custom

    @property
    def arguments(self) -> str:
        """The arguments so far."""
        return "".join(self._pieces)

    @property
    def says_nothing(self) -> bool:
        """Whether it is empty: nothing is lost if its name never comes."""
        return not self.call_id and not self.arguments.strip()
