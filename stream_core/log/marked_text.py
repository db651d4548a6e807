"""The answer to a request of OpenAI's API, as one text: what the model says, and all that it gives beside that.

The log holds text. Marks in that text say where the text behind them belongs: to what the model says, as at the beginning,
to its reasoning, to a refusal, to the arguments of a call; and to which of several choices. An answer that is only said has
no marks. A mark is a record of RFC 7464: RS, an object, LF.

    {"to":"reasoning_content"}              what stands behind it belongs there, or to `reasoning` or `refusal`
    {"call":0,"id":"call_1","name":"add"}   the call 0 begins; behind it stand its arguments
    {"call":0}                              more of its arguments
    {"call":null}                           more of what the model says
    {"choice":1}                            more of this choice, in the place where it was left
    {"logprobs":{"content":[…]}}            of tokens of this choice; it changes nothing of where the text belongs
    {"end":"length"}                        how this choice ended; only of choices behind the first, whose end is the answer's
    {"text":"\\u001e"}                       an RS of the model's own; nor does it

Nothing but what begins is cut into fragments: the same answer is the same text however the model's server cut it, two
attempts can be compared, and what is joined or cut on its way stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

ASIDES = ("reasoning_content", "reasoning", "refusal")
"""What a model may say beside its answer, by the names of the fields in which servers send it."""
MOST_CALLS = 128
"""Calls of one choice: as many as a request may bring tools."""
MOST_CHOICES = 128
LONGEST_MARK = 2_048
"""Characters."""
LONGEST_RECORD = 65_536
"""Characters of a mark with the log probabilities of a token."""
MARK = "\x1e"
MARK_END = "\n"
CALL_TYPES = ("function", "custom")
_OWN_MARK = MARK + orjson.dumps({"text": MARK}).decode() + MARK_END

Place = str | int | None
"""Where text belongs: one of `ASIDES`, a call, or what the model says."""


class NotMarked(ValueError):
    """This is no marked text, or says what none may say."""


@dataclass(frozen=True, slots=True)
class CallPart:
    """What is new of a call: `id` and `name` at its beginning, and more of its arguments."""

    index: int
    arguments: str
    id: str = ""
    name: str = ""
    type: str = "function"


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """What is new of one choice of an answer: more of what the model says, of its calls, each of them once, and beside that.

    `asides` are by the names of `ASIDES`. `begins`: nothing of this choice came before, and it isn't the first one. `end`:
    how it ended, where it isn't the first one.
    """

    text: str = ""
    calls: tuple[CallPart, ...] = ()
    choice: int = 0
    asides: Mapping[str, str] = field(default_factory=dict)
    logprobs: Mapping[str, list[Any]] = field(default_factory=dict)
    begins: bool = False
    end: str = ""


class MarkedTextWriter:
    """Marks what a model gives, as it comes."""

    def __init__(self) -> None:
        self._choice = 0
        self._places: dict[int, Place] = {}
        self._begun: set[tuple[int, int]] = set()

    def text(self, text: str, choice: int = 0) -> str:
        """More of what the model says.

        Raises:
            NotMarked: there are too many choices; so with all others.
        """
        return self._turn_to(None, choice) + _escaped(text) if text else ""

    def aside(self, name: str, text: str, choice: int = 0) -> str:
        """More of what it says beside its answer; `name` is one of `ASIDES`."""
        return self._turn_to(name, choice) + _escaped(text) if text else ""

    def call(
        self, index: int, arguments: str, call_id: str = "", name: str = "", choice: int = 0, kind: str = "function"
    ) -> str:
        """More of the call `index`; `call_id`, `name` and `kind` count only where it begins.

        Raises:
            NotMarked: it begins without a name or an id, or these are too long, or there are too many calls.
        """
        if (choice, index) in self._begun:
            return self._turn_to(index, choice) + _escaped(arguments) if arguments else ""
        if not (call_id and name and 0 <= index < MOST_CALLS and kind in CALL_TYPES):
            raise NotMarked("a call begins without a name or an id, or has a number that none may have")
        more = {} if kind == "function" else {"type": kind}
        begins = _mark({"call": index, "id": call_id, "name": name, **more})
        if len(begins) > LONGEST_MARK:
            raise NotMarked("the name or the id of a call is too long")
        chosen = self._choose(choice)
        self._begun.add((choice, index))
        self._places[choice] = index
        return chosen + begins + _escaped(arguments)

    def logprobs(self, given: Mapping[str, Any], choice: int = 0) -> str:
        """The log probabilities of more tokens: `content` and `refusal`, lists both.

        Raises:
            NotMarked: those of one token are too long.
        """
        # A record each: how the server joins them doesn't show, and none is long.
        named = ((name, entries) for name, entries in given.items() if isinstance(entries, list))
        records = [_mark({"logprobs": {name: [entry]}}) for name, entries in named for entry in entries]
        if any(len(record) > LONGEST_RECORD for record in records):
            raise NotMarked("the log probabilities of a token are too long")
        return self._choose(choice) + "".join(records) if records else ""

    def end(self, reason: str, choice: int) -> str:
        """How a choice behind the first one ended."""
        return self._choose(choice) + _mark({"end": reason})

    def _choose(self, choice: int) -> str:
        if choice == self._choice:
            return ""
        if not 0 <= choice < MOST_CHOICES:
            raise NotMarked("a choice has a number that none may have")
        self._choice = choice
        return _mark({"choice": choice})

    def _turn_to(self, place: Place, choice: int) -> str:
        chosen = self._choose(choice)
        if self._places.get(choice) == place:
            return chosen
        self._places[choice] = place
        return chosen + _mark({"to": place} if isinstance(place, str) else {"call": place})


def has_marks(text: str) -> bool:
    """Whether a marked text goes beyond what the model says."""
    return MARK in text


def _mark(said: dict[str, Any]) -> str:
    return MARK + orjson.dumps(said).decode() + MARK_END


def _escaped(text: str) -> str:
    return text.replace(MARK, _OWN_MARK) if MARK in text else text
