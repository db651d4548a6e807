"""The answer to a request with tools, as one text: what the model says, and what it calls.

The log holds text. Where a model may call tools, marks in that text say where the text behind them belongs: to what the
model says, as at the beginning, or to the arguments of a call. A mark is a record of RFC 7464: RS, an object, LF.

    {"call":0,"id":"call_1","name":"add"}   the call 0 begins; behind it stand its arguments
    {"call":0}                              more of its arguments
    {"call":null}                           more of what the model says
    {"text":"\\u001e"}                       an RS of the model's own; it changes nothing of where the text belongs

Arguments are not cut into fragments, but stand there as text: the same answer is the same text however the model's server
cut it, two attempts can be compared, and what is joined or cut on its way stays what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

MOST_CALLS = 128
"""Calls of one answer: as many as a request may bring tools."""
LONGEST_MARK = 2_048
"""Characters."""

_MARK = "\x1e"
_END = "\n"
_OWN_MARK = _MARK + orjson.dumps({"text": _MARK}).decode() + _END


class NotMarked(ValueError):
    """This is no marked text, or says what none may say."""


@dataclass(frozen=True, slots=True)
class CallPart:
    """What is new of a call: `id` and `name` at its beginning, and more of its arguments."""

    index: int
    arguments: str
    id: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """What is new of an answer: more of what the model says, and of its calls, each of them once."""

    text: str
    calls: tuple[CallPart, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.calls)


class MarkedTextWriter:
    """Marks what a model says and calls, as it comes."""

    def __init__(self) -> None:
        self._calls: set[int] = set()
        self._in: int | None = None

    def text(self, text: str) -> str:
        """More of what the model says."""
        if not text:
            return ""
        return self._turn_to(None) + _escaped(text)

    def call(self, index: int, arguments: str, call_id: str = "", name: str = "") -> str:
        """More of the call `index`; `call_id` and `name` count only where it begins.

        Raises:
            NotMarked: it begins without a name or an id, or these are too long, or there are too many calls.
        """
        if index in self._calls:
            return self._turn_to(index) + _escaped(arguments) if arguments else ""
        if not (call_id and name and 0 <= index < MOST_CALLS):
            raise NotMarked("a call begins without a name or an id, or has a number that none may have")
        begins = _mark({"call": index, "id": call_id, "name": name})
        if len(begins) > LONGEST_MARK:
            raise NotMarked("the name or the id of a call is too long")
        self._calls.add(index)
        self._in = index
        return begins + _escaped(arguments)

    def _turn_to(self, index: int | None) -> str:
        if index == self._in:
            return ""
        self._in = index
        return _mark({"call": index})


class MarkedTextReader:
    """Reads a marked text piece by piece, wherever it was cut."""

    def __init__(self) -> None:
        self._in: int | None = None
        self._begun: set[int] = set()
        self._unread = ""  # a mark whose end has not come
        self._text: list[str] = []
        self._calls: dict[int, _Gathered] = {}

    def read(self, piece: str) -> AnswerPart:
        """What `piece` adds.

        Raises:
            NotMarked: see there.
        """
        plain, *marked = (self._unread + piece).split(_MARK)
        self._unread = ""
        self._add(plain)
        for place, following in enumerate(marked, 1):
            mark, end, behind = following.partition(_END)
            if len(mark) > LONGEST_MARK or not (end or place == len(marked)):
                raise NotMarked("a mark has no end")
            if end:
                self._obey(mark)
                self._add(behind)
            else:
                self._unread = _MARK + mark
        part = AnswerPart("".join(self._text), tuple(call.part() for call in self._calls.values()))
        self._text.clear()
        self._calls.clear()
        return part

    def _obey(self, mark: str) -> None:
        try:
            match orjson.loads(mark):
                case {"text": str(text)}:
                    self._add(text)
                case {"call": None}:
                    self._in = None
                case {"call": int(index), "id": str(call_id), "name": str(name)} if index not in self._begun:
                    self._begin(index, call_id, name)
                case {"call": int(index), **more} if index in self._begun and not more:
                    self._in = index
                case _:
                    raise NotMarked("a mark says nothing that is known")
        except orjson.JSONDecodeError as wrong:
            raise NotMarked("a mark is no JSON") from wrong

    def _begin(self, index: int, call_id: str, name: str) -> None:
        if not (call_id and name and 0 <= index < MOST_CALLS):
            raise NotMarked("a call begins without a name or an id, or has a number that none may have")
        self._begun.add(index)
        self._gathered(index).begins(call_id, name)
        self._in = index

    def _add(self, text: str) -> None:
        if not text:
            return
        if self._in is None:
            self._text.append(text)
        else:
            self._gathered(self._in).arguments.append(text)

    def _gathered(self, index: int) -> _Gathered:
        return self._calls.setdefault(index, _Gathered(index))


class _Gathered:
    """What one piece adds to one call."""

    def __init__(self, index: int) -> None:
        self.arguments: list[str] = []
        self._index = index
        self._id = self._name = ""

    def begins(self, call_id: str, name: str) -> None:
        self._id, self._name = call_id, name

    def part(self) -> CallPart:
        return CallPart(self._index, "".join(self.arguments), self._id, self._name)


def has_calls(text: str) -> bool:
    """Whether a marked text goes beyond what the model says."""
    return _MARK in text


def _mark(said: dict[str, Any]) -> str:
    return _MARK + orjson.dumps(said).decode() + _END


def _escaped(text: str) -> str:
    return text.replace(_MARK, _OWN_MARK) if _MARK in text else text
