"""The entries of a log: text, parts of other kinds, and restarts; and which of them join.

A part is a content of an answer beside its text. `Part` has the same fields for
each kind:

    kind        text                          call    id        name
    text        text of a later choice
    reasoning   text                                  detail    the field of the model's server
    refusal     text
    call        "" or "custom"                number  call_1    the tool
    arguments   more arguments of the call    number
    call_end                                  number
    result      what the tool gave                    call_1    the tool
    data        a value as JSON               number            what it is, as `source`

Data named `EXTRA` or `CALL_EXTRA` is an object: fields of the message, or of the call `number`,
that the model's server needs back. `returned_fields` explains details. Fields of a call usually
precede it.

Data named `CHUNK_EXTRA` is an object at the end of the answer: `chunk`, `choice` and `usage` have
the fields that the model's server sent there, and that nothing here reads.

Text of the first choice is a plain `str`: nearly all entries are text of the first choice.

Neighbours of a kind in `JOINING` join if they have the same fields except `text`.
Nothing else joins. So the same answer is the same sequence of joined entries, however the model's
server cut it: attempts can be compared, and slow readers receive fewer entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import orjson


class PartKind(StrEnum):
    """The kind of a part. Clients, stores and workers receive its value."""

    TEXT = "text"
    REASONING = "reasoning"
    REFUSAL = "refusal"
    CALL = "call"
    ARGUMENTS = "arguments"
    CALL_END = "call_end"
    RESULT = "result"
    DATA = "data"

    __hash__ = str.__hash__  # the one of enumerations is not in C, and kinds are looked up often


JOINING = frozenset({PartKind.TEXT, PartKind.REASONING, PartKind.REFUSAL, PartKind.ARGUMENTS})
"""The kinds with a delta as their text. Neighbours that differ only in text join."""
OF_TOKENS = JOINING | {PartKind.CALL}
"""The kinds that consist of tokens of the model. Its server adds the other kinds."""
_OF_CALLS = frozenset({PartKind.CALL, PartKind.ARGUMENTS, PartKind.CALL_END})
MOST_CALLS = 128
"""The most calls of one choice: as many as a request may bring tools."""
MOST_CHOICES = 128
LONGEST_NAME = 1_024
"""Characters of a part's `name`."""
LONGEST_ID = 16_384
"""Characters of a part's `id`: some servers put a signature into it. A detail is a name."""
LONGEST_VALUE = 65_536
"""Characters of a part's `text` where it is not a delta: results, and data as JSON."""
LOGPROBS = "logprobs"
"""The name of data that are the log probabilities of a token."""
EXTRA = "extra"
"""The name of data with fields of the message."""
CALL_EXTRA = "call_extra"
"""The name of data with fields of a call."""
CHUNK_EXTRA = "chunk_extra"
"""The name of data with fields of chunks, choices and usage, for clients of chat completions."""
CUSTOM = "custom"
"""The text of a call of a custom tool: its arguments are no JSON."""
PART_BYTES = 16
"""Bytes that a part counts in a log's size, without its text, id and name."""


class NotAPart(ValueError):
    """A part has a field that is not allowed."""


@dataclass(frozen=True, slots=True)
class Part:
    """A content of an answer beside its text. The module explains each field.

    Args:
        choice: the number of its answer, where several were requested.
        call: the number of a call within its choice.
    """

    kind: PartKind
    text: str = ""
    choice: int = 0
    call: int = 0
    id: str = ""
    name: str = ""

    def __reduce__(self) -> tuple[type[Part], tuple[object, ...]]:
        """What pickle keeps. It can't set the fields of a frozen class that is compiled."""
        return Part, (self.kind, self.text, self.choice, self.call, self.id, self.name)

    @property
    def size(self) -> int:
        """Bytes that it counts in a log's size."""
        # All parts of a reasoning share their `id`.
        of_id = len(self.id) if self.kind not in JOINING else 0
        return PART_BYTES + len(self.text.encode()) + of_id + len(self.name)

    def with_text(self, text: str) -> Part:
        """The same part with another text."""
        return replace(self, text=text)

    def check(self) -> None:
        """Check a part that comes from outside.

        Raises:
            NotAPart: a field is out of its range, or too long.
        """
        if not (0 <= self.choice < MOST_CHOICES and 0 <= self.call < MOST_CALLS):
            raise NotAPart("the number of a choice or of a call is out of range")
        if self.kind is PartKind.CALL and not (self.id and self.name):
            raise NotAPart("a call begins without a name or an id")
        if self.kind is PartKind.RESULT and not self.id:
            raise NotAPart("a result comes without the id of its call")
        if self.kind is PartKind.DATA and not self.name:
            raise NotAPart("data comes without a name")
        most = LONGEST_NAME if self.kind in JOINING else LONGEST_ID
        if len(self.name) > LONGEST_NAME or len(self.id) > most:
            raise NotAPart("the name or the id of a part is too long")
        if self.kind not in JOINING and len(self.text) > LONGEST_VALUE:
            raise NotAPart(f"the {self.kind} of an answer is too long")
        if self.kind is PartKind.DATA and not _is_json(self.text):
            raise NotAPart("the value of data is not JSON")


@dataclass(frozen=True, slots=True)
class Restart:
    """A marker with an index of its own. What follows it replaces the entries after `from_index`.

    `epoch` is 0 for a restart by the same owner. Where a new owner begins, it is that owner's
    epoch. From there on an earlier owner may have delivered other entries under the same indexes,
    if it was lost before all of its entries were on record.

    If it `withdraws`, later readers do not receive the replaced text.
    """

    from_index: int
    attempt: int
    epoch: int = 0
    withdraws: bool = False

    def __reduce__(self) -> tuple[type[Restart], tuple[object, ...]]:
        """What pickle keeps, for the same reason as that of `Part`."""
        return Restart, (self.from_index, self.attempt, self.epoch, self.withdraws)


Content = str | Part
"""A content of an answer: text, or a part."""
LogEntry = str | Part | Restart
"""The entry at one index of a log: text, another part, or the marker of a restart."""


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def size_of(entry: LogEntry) -> int:
    """Bytes that an entry counts in a log's size. A restart counts nothing."""
    if isinstance(entry, str):
        return len(entry.encode())
    return entry.size if isinstance(entry, Part) else 0


def differ_only_in_text(one: Part, other: Part) -> bool:
    """Whether two neighbours join: only their text differs, and it is a delta."""
    return (
        one.kind is other.kind
        and one.kind in JOINING
        and one.choice == other.choice
        and one.call == other.call
        and one.name == other.name
        and one.id == other.id
    )


def is_of_call(part: Part) -> bool:
    """Whether `call` of the part is the number of a call."""
    return part.kind in _OF_CALLS or (part.kind is PartKind.DATA and part.name == CALL_EXTRA)


def is_returned(part: Part) -> bool:
    """Whether the part has fields that the model's server needs back."""
    return part.kind is PartKind.DATA and part.name in (EXTRA, CALL_EXTRA)


def has_only_fields(part: Part) -> bool:
    """Whether the part only has fields of the model's server, and no content of the answer."""
    return is_returned(part) or (part.kind is PartKind.DATA and part.name == CHUNK_EXTRA)


def joins(one: Content, other: Content) -> bool:
    """Whether two neighbours join."""
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    return differ_only_in_text(one, other)


def text_of(content: Content) -> str:
    """The text of a delta, or of another part."""
    return content if isinstance(content, str) else content.text


def with_text(content: Content, text: str) -> Content:
    """The same content with another text."""
    return text if isinstance(content, str) else content.with_text(text)


def joined(contents: Iterable[Content]) -> Iterator[Content]:
    """The same contents with neighbours joined: the one form that an answer has."""
    first: Content | None = None
    texts: list[str] = []
    for content in contents:
        if first is not None and joins(first, content):
            texts.append(text_of(content))
            continue
        if first is not None:
            yield with_text(first, "".join(texts))
        first, texts = content, [text_of(content)]
    if first is not None:
        yield with_text(first, "".join(texts))


def behind(contents: Iterable[Content], prefix: Iterable[Content]) -> tuple[Content, ...]:
    """The rest of `contents` after `prefix`, with which they begin. Both are joined."""
    rest = list(contents)
    for content in prefix:
        text, prefix_text = text_of(rest[0]), text_of(content)
        if len(text) > len(prefix_text):
            rest[0] = with_text(rest[0], text[len(prefix_text) :])
        else:
            del rest[0]
    return tuple(rest)
