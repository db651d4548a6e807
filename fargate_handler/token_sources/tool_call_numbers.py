"""Assembles the tool calls of a choice from fragments, and numbers them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import orjson

from evenflow.fargate_handler.token_sources.chunk_fields import whole_characters
from evenflow.stream_core.log.entries import MOST_CALLS
from evenflow.stream_core.log.returned_fields import Fields, join_fields

# The most attempts to parse one call's arguments, since each takes time. If its arguments
# are still incomplete then, a call ends with the answer.
_MOST_READINGS = 8


@dataclass(slots=True)
class OpenCall:
    """A call that has begun and not ended.

    Args:
        is_custom: whether its tool accepts any text, so that its end can't be detected.
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
            self.extra = join_fields(self.extra, extra)
        self.call_id = self.call_id or call_id
        self.name = self.name or name
        self._pieces.append(arguments)
        self.is_custom = self.is_custom or is_custom

    @property
    def arguments(self) -> str:
        """The arguments so far."""
        return "".join(self._pieces)

    @property
    def is_empty(self) -> bool:
        """Whether it is empty: nothing is lost if its name never comes."""
        return not self.call_id and not self.arguments.strip()


class CallIds:
    """Makes the ids of calls unique: some servers repeat one, and clients identify calls by it.

    Results with a repeated id belong to its calls in their order. The ids depend on the stream
    alone, so that attempts can be compared.
    """

    __slots__ = ("_answered_ids", "_unique_ids", "_used_ids")

    def __init__(self) -> None:
        self._unique_ids: dict[str, list[str]] = {}
        """The unique ids, by the server's id."""
        self._used_ids: set[str] = set()
        self._answered_ids: set[str] = set()

    def add_call(self, server_id: str) -> str:
        """The unique id of a call that begins."""
        unique_id, count = server_id, 1
        while unique_id in self._used_ids:
            count += 1
            unique_id = f"{server_id}_{count}"
        self._used_ids.add(unique_id)
        self._unique_ids.setdefault(server_id, []).append(unique_id)
        return unique_id

    def match_result(self, server_id: str) -> str:
        """The unique id of the call to which a result belongs."""
        candidates = self._unique_ids.get(server_id, [server_id])
        unique_id = next(
            (call_id for call_id in candidates if call_id not in self._answered_ids), candidates[-1]
        )
        self._answered_ids.add(unique_id)
        return unique_id


class ToolCallNumbers:
    """The calls of one choice, by the indexes and ids of the model's server.

    A model counts the calls of its answer from 0. An agent calls a model again after each result,
    and the count begins at 0 again. So the index of a call with a result is free again.
    """

    __slots__ = ("_call_ids", "_ids", "_names", "_numbers", "_pending_ids")

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # by the server's index
        self._names: dict[int, str] = {}  # of all calls that have begun, by their numbers
        self._call_ids = CallIds()
        self._ids: dict[str, int] = {}
        self._pending_ids: dict[str, None] = {}  # ids of the calls without a result, in their order

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._ids

    @property
    def oldest_pending(self) -> str:
        """The id of the first call without a result. Empty: there is none."""
        return next(iter(self._pending_ids), "")

    def number(self, index: int) -> int | None:
        """The number of the call at this index of the server's. None: there is none."""
        return self._numbers.get(index)

    def begin(self, index: int, call_id: str, name: str) -> tuple[int, str]:
        """Begin a call. Returns its number, and its id: its result needs one."""
        call_id = self._call_ids.add_call(call_id or f"call_{secrets.token_hex(12)}")
        number = index if index < MOST_CALLS and index not in self._names else self._free_number()
        self._numbers[index] = self._ids[call_id] = number
        self._names[number] = name
        self._pending_ids[call_id] = None
        return number, call_id

    def _free_number(self) -> int:
        highest = max(self._names, default=-1)
        if highest + 1 < MOST_CALLS:
            return highest + 1
        return next(number for number in range(MOST_CALLS + 1) if number not in self._names)

    def answer(self, call_id: str) -> tuple[int, str, str]:
        """Note the result of a call that has begun.

        Returns:
            The call's number, its id, and its tool's name.
        """
        call_id = self._call_ids.match_result(call_id)
        number = self._ids[call_id]
        self._pending_ids.pop(call_id, None)
        self._numbers = {
            at: open_number for at, open_number in self._numbers.items() if open_number != number
        }
        return number, call_id, self._names[number]
