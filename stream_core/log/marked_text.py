"""Marked text: an answer to a request of OpenAI's API, with all that is beside its text.

The log holds text. A mark says where the text behind it belongs: to the answer itself (as at the
beginning), to the reasoning, to a refusal, or to the arguments of a call, and to which choice. An
answer that is only text has no marks. A mark is a record as in RFC 7464: RS, a JSON object, LF.

    {"to":"reasoning_content"}              the text belongs there, or to `reasoning` or `refusal`
    {"call":0,"id":"call_1","name":"add"}   call 0 begins; the text is its arguments
    {"call":0}                              the text is more of its arguments
    {"call":null}                           the text is the answer again
    {"choice":1}                            the text belongs to this choice, where it was left
    {"logprobs":{"content":[…]}}            log probabilities of this choice's tokens
    {"end":"length"}                        how this choice ended; never of the first one
    {"text":"\\u001e"}                       an RS that the model wrote

`logprobs` and `text` don't change where the text belongs.

Marks don't depend on how the model's server cuts its answer. So the same answer is always the same
text, two attempts can be compared, and the text can be joined and cut anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

ASIDES = ("reasoning_content", "reasoning", "refusal")
"""What a model may give beside its answer: the names of the fields in which servers send it."""
MOST_CALLS = 128
"""The most calls of one choice: as many as a request may bring tools."""
MOST_CHOICES = 128
LONGEST_MARK = 2_048
"""Characters of a mark."""
LONGEST_RECORD = 65_536
"""Characters of a mark with the log probabilities of a token."""
MARK = "\x1e"
MARK_END = "\n"
CALL_TYPES = ("function", "custom")
_OWN_MARK = MARK + orjson.dumps({"text": MARK}).decode() + MARK_END

Place = str | int | None
"""Where text belongs: one of `ASIDES`, the number of a call, or None for the answer itself."""


class NotMarked(ValueError):
    """The text is not marked text, or a mark in it is not allowed."""


@dataclass(frozen=True, slots=True)
class CallPart:
    """New text of a call: more of its arguments. At its beginning also its `id` and `name`."""

    index: int
    arguments: str
    id: str = ""
    name: str = ""
    type: str = "function"


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """What is new of one choice of an answer. Each call is in it at most once.

    Args:
        asides: texts by the names of `ASIDES`.
        begins: whether this is the beginning of a choice that isn't the first.
        end: the finish reason of a choice that isn't the first. Empty until it has ended.
    """

    text: str = ""
    calls: tuple[CallPart, ...] = ()
    choice: int = 0
    asides: Mapping[str, str] = field(default_factory=dict)
    logprobs: Mapping[str, list[Any]] = field(default_factory=dict)
    begins: bool = False
    end: str = ""


class MarkedTextWriter:
    """Turns what a model gives, piece by piece, into marked text.

    Every method returns the text to append to the log.
    """

    def __init__(self) -> None:
        self._choice = 0
        self._places: dict[int, Place] = {}
        self._begun: set[tuple[int, int]] = set()

    def text(self, text: str, choice: int = 0) -> str:
        """More of the answer itself.

        Raises:
            NotMarked: there are too many choices. All methods raise it then.
        """
        return self._turn_to(None, choice) + _escaped(text) if text else ""

    def aside(self, name: str, text: str, choice: int = 0) -> str:
        """More of what is beside the answer. `name` is one of `ASIDES`."""
        return self._turn_to(name, choice) + _escaped(text) if text else ""

    def call(
        self,
        index: int,
        arguments: str,
        call_id: str = "",
        name: str = "",
        choice: int = 0,
        kind: str = "function",
    ) -> str:
        """More of the call `index`. `call_id`, `name` and `kind` matter only at its beginning.

        Raises:
            NotMarked: the call begins without a name or an id, or they are too long, or there are
                too many calls.
        """
        if (choice, index) in self._begun:
            return self._turn_to(index, choice) + _escaped(arguments) if arguments else ""
        if not (call_id and name and 0 <= index < MOST_CALLS and kind in CALL_TYPES):
            raise NotMarked("a call begins without a name or an id, or its number is out of range")
        more = {} if kind == "function" else {"type": kind}
        begins = _mark({"call": index, "id": call_id, "name": name, **more})
        if len(begins) > LONGEST_MARK:
            raise NotMarked("the name or the id of a call is too long")
        chosen = self._choose(choice)
        self._begun.add((choice, index))
        self._places[choice] = index
        return chosen + begins + _escaped(arguments)

    def logprobs(self, given: Mapping[str, Any], choice: int = 0) -> str:
        """The log probabilities of more tokens, in the lists `content` and `refusal`.

        Raises:
            NotMarked: those of one token are too long.
        """
        # One record a token: so the text doesn't depend on how the server joins them.
        named = ((name, entries) for name, entries in given.items() if isinstance(entries, list))
        records = [
            _mark({"logprobs": {name: [entry]}}) for name, entries in named for entry in entries
        ]
        if any(len(record) > LONGEST_RECORD for record in records):
            raise NotMarked("the log probabilities of a token are too long")
        return self._choose(choice) + "".join(records) if records else ""

    def end(self, reason: str, choice: int) -> str:
        """The finish reason of a choice that isn't the first one."""
        return self._choose(choice) + _mark({"end": reason})

    def _choose(self, choice: int) -> str:
        if choice == self._choice:
            return ""
        if not 0 <= choice < MOST_CHOICES:
            raise NotMarked("the number of a choice is out of range")
        self._choice = choice
        return _mark({"choice": choice})

    def _turn_to(self, place: Place, choice: int) -> str:
        chosen = self._choose(choice)
        if self._places.get(choice) == place:
            return chosen
        self._places[choice] = place
        return chosen + _mark({"to": place} if isinstance(place, str) else {"call": place})


def has_marks(text: str) -> bool:
    """Whether a marked text has anything beside the answer itself."""
    return MARK in text


def _mark(said: dict[str, Any]) -> str:
    return MARK + orjson.dumps(said).decode() + MARK_END


def _escaped(text: str) -> str:
    return text.replace(MARK, _OWN_MARK) if MARK in text else text
