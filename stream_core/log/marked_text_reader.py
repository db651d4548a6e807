"""Reads marked text piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import orjson

from stream_core.log.marked_text import (
    ASIDES,
    CALL_TYPES,
    LONGEST_MARK,
    LONGEST_RECORD,
    MARK,
    MARK_END,
    MOST_CALLS,
    MOST_CHOICES,
    AnswerPart,
    CallPart,
    NotMarked,
    Place,
)
from stream_core.protocol.messages import FinishReason

_RECORD = '{"logprobs":'
_ENDS = get_args(FinishReason)


class MarkedTextReader:
    """Reads a marked text piece by piece. The text may be cut anywhere."""

    def __init__(self) -> None:
        self._unread = ""  # a mark whose end has not come
        self._choice = 0
        self._places: dict[int, Place] = {0: None}
        self._calls: dict[tuple[int, int], str] = {}
        """The calls that have begun, with their types."""
        self._ended: set[int] = set()
        self._gathered: dict[int, _Gathered] = {}

    @property
    def open_choices(self) -> tuple[int, ...]:
        """The choices that have not ended. The first one ends only with the answer."""
        return tuple(choice for choice in sorted(self._places) if choice not in self._ended)

    @property
    def in_text(self) -> bool:
        """Whether a piece without marks is text of the answer itself."""
        return not self._unread and self._choice == 0 and self._places[0] is None

    def read(self, piece: str) -> tuple[AnswerPart, ...]:
        """What `piece` adds, one part a choice.

        Raises:
            NotMarked: the text is not marked text.
        """
        if MARK not in piece and self.in_text:
            return (AnswerPart(piece),) if piece else ()
        plain, *marked = (self._unread + piece).split(MARK)
        self._unread = ""
        self._add(plain)
        for place, following in enumerate(marked, 1):
            mark, end, behind = following.partition(MARK_END)
            longest = LONGEST_RECORD if mark.startswith(_RECORD) else LONGEST_MARK
            if len(mark) > longest or not (end or place == len(marked)):
                raise NotMarked("a mark has no end")
            if end:
                self._apply(mark)
                self._add(behind)
            else:
                self._unread = MARK + mark
        parts = tuple(self._gathered[choice].part() for choice in sorted(self._gathered))
        self._gathered.clear()
        return parts

    def _apply(self, mark: str) -> None:
        try:
            said = orjson.loads(mark)
        except orjson.JSONDecodeError as wrong:
            raise NotMarked("a mark is not JSON") from wrong
        match said:
            case {"text": str(text)}:
                self._add(text)
            case {"call": None}:
                self._places[self._choice] = None
            case {"call": int(index)}:
                self._turn_to_call(index, said)
            case {"to": str(name)} if name in ASIDES:
                self._places[self._choice] = name
            case {"choice": int(choice)} if 0 <= choice < MOST_CHOICES:
                self._choose(choice)
            case {"logprobs": dict(given)} if all(
                isinstance(entries, list) for entries in given.values()
            ):
                self._part_of_choice().add_logprobs(given)
            case {"end": str(reason)} if reason in _ENDS and self._choice:
                self._ended.add(self._choice)
                self._part_of_choice().end = reason
            case _:
                raise NotMarked("a mark is of an unknown kind")

    def _choose(self, choice: int) -> None:
        self._choice = choice
        if choice not in self._places:
            self._places[choice] = None
            self._part_of_choice().begins = True

    def _turn_to_call(self, index: int, said: dict[str, Any]) -> None:
        known = (self._choice, index) in self._calls
        match said:
            case {"id": str(call_id), "name": str(name)} if not known:
                kind = said.get("type", "function")
                if not (call_id and name and 0 <= index < MOST_CALLS and kind in CALL_TYPES):
                    raise NotMarked(
                        "a call begins without a name or an id, or its number is out of range"
                    )
                self._calls[self._choice, index] = kind
                self._part_of_choice().call(index, kind).begins(call_id, name)
            case _ if not known or len(said) > 1:
                raise NotMarked("a mark is of an unknown kind")
        self._places[self._choice] = index

    def _add(self, text: str) -> None:
        if not text:
            return
        place, gathered = self._places[self._choice], self._part_of_choice()
        if isinstance(place, int):
            gathered.call(place, self._calls[self._choice, place]).arguments.append(text)
        else:
            gathered.texts.setdefault(place, []).append(text)

    def _part_of_choice(self) -> _Gathered:
        return self._gathered.setdefault(self._choice, _Gathered(self._choice))


class _Gathered:
    """What one piece adds to one choice."""

    def __init__(self, choice: int) -> None:
        self.texts: dict[str | None, list[str]] = {}
        self.begins = False
        self.end = ""
        self._choice = choice
        self._calls: dict[int, _GatheredCall] = {}
        self._logprobs: dict[str, list[Any]] = {}

    def call(self, index: int, kind: str) -> _GatheredCall:
        return self._calls.setdefault(index, _GatheredCall(index, kind))

    def add_logprobs(self, given: Mapping[str, list[Any]]) -> None:
        for name, entries in given.items():
            self._logprobs.setdefault(name, []).extend(entries)

    def part(self) -> AnswerPart:
        texts = {name: "".join(pieces) for name, pieces in self.texts.items()}
        return AnswerPart(
            texts.get(None, ""),
            tuple(call.part() for call in self._calls.values()),
            self._choice,
            {name: text for name, text in texts.items() if name is not None},
            self._logprobs,
            self.begins,
            self.end,
        )


class _GatheredCall:
    """What one piece adds to one call."""

    def __init__(self, index: int, kind: str) -> None:
        self.arguments: list[str] = []
        self._index = index
        self._kind = kind
        self._id = self._name = ""

    def begins(self, call_id: str, name: str) -> None:
        self._id, self._name = call_id, name

    def part(self) -> CallPart:
        return CallPart(self._index, "".join(self.arguments), self._id, self._name, self._kind)
