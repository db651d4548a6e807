"""The contents of an answer as blocks, as most protocols send them: begin, deltas, end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from evenflow.stream_core.log.entries import (
    CALL_EXTRA,
    CHUNK_EXTRA,
    EXTRA,
    Content,
    Part,
    PartKind,
    is_returned,
)
from evenflow.stream_core.log.returned_fields import Fields, join_fields, sealed

_PLAIN = (PartKind.TEXT, PartKind.REASONING, PartKind.REFUSAL)


@dataclass(slots=True)
class Block:
    """A text, a reasoning, a refusal or a call of an answer.

    Args:
        number: counts the blocks of an answer from 0.
        call, id, name, custom: of a call: its number, its id, its tool, and whether the tool takes
            any text instead of JSON. `name` of a reasoning is the field of the model's server, and
            `id` its detail.
        silent: a reasoning without text, which only has fields that the server needs back. `id` is
            that of their call, if they came after its beginning.
        pieces: of its text so far, or of the arguments of the call.
        values: its parts that are no block: sources, log probabilities of its tokens, fields that
            the server needs back.
    """

    number: int
    kind: PartKind
    call: int = 0
    id: str = ""
    name: str = ""
    custom: bool = False
    silent: bool = False
    pieces: list[str] = field(default_factory=list)
    values: list[Part] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its text so far, or the arguments of the call."""
        return "".join(self.pieces)

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The parsed arguments of an ended call. None: they are no object, or were cut."""
        text = self.text.strip()
        try:
            given = orjson.loads(text) if text else None
        except orjson.JSONDecodeError:
            return None
        # Some servers write `null` for no arguments.
        return {} if given is None else given if isinstance(given, dict) else None

    @property
    def extra(self) -> Fields:
        """The fields so far that the server needs back with this block."""
        return _fields_in(self.values)

    @property
    def returned(self) -> Fields:
        """The object that a client keeps of the block for the server (`returned_fields`)."""
        of_call = self.silent and any(part.name == CALL_EXTRA for part in self.values)
        kept: Fields = {"call" if of_call else "extra": self.extra}
        if of_call:
            kept["call_id"] = self.id
        elif self.kind is PartKind.REASONING:
            kept = {"field": self.name, "detail": self.id} | kept
        return {name: value for name, value in kept.items() if value}

    @property
    def sealed(self) -> str:
        """`returned` as text."""
        return sealed(self.returned)


@dataclass(frozen=True, slots=True)
class Begin:
    """A block begins. It has no text yet."""

    block: Block


@dataclass(frozen=True, slots=True)
class Delta:
    """More text of a block that has begun."""

    block: Block
    text: str


@dataclass(frozen=True, slots=True)
class End:
    """A block ends."""

    block: Block


@dataclass(frozen=True, slots=True)
class Value:
    """A part that is no block: a result, or data. `block` is what it belongs to, if it is open."""

    part: Part
    block: Block | None


BlockEvent = Begin | Delta | End | Value


class Blocks:
    """Turns contents into blocks, one after the other.

    A text, a reasoning or a refusal ends where another block begins. A call ends where its
    `call_end` is. What is still open ends with the answer. Contents of later choices and
    `CHUNK_EXTRA` are left out.

    Fields that the server needs back belong to the open text or reasoning, or to their call. If
    none is open they are a silent reasoning.
    """

    __slots__ = (
        "_ahead",
        "_call_ids",
        "_calls",
        "_count",
        "_late",
        "_late_calls",
        "_plain",
        "_uncalled",
    )

    seals_calls = False
    """Whether fields of a call are also a silent reasoning before it, or behind the open calls."""

    def __init__(self, contents: Iterable[Content] = ()) -> None:
        self._count = 0
        self._plain: Block | None = None
        self._calls: dict[int, Block] = {}
        self._ahead: list[Part] = []
        self._uncalled: dict[int, list[Part]] = {}  # fields of calls that have not begun
        self._late: list[Part] = []  # fields to send after the open calls
        self._late_calls: dict[str, list[Part]] = {}  # the same, by their calls
        self._call_ids: dict[int, str] = {}  # of calls that have begun
        for content in contents:
            self.take(content)

    @property
    def open(self) -> Sequence[Block]:
        """The blocks that have begun and not ended, in their order."""
        plain = [self._plain] if self._plain is not None else []
        return sorted([*self._calls.values(), *plain], key=lambda block: block.number)

    @property
    def text(self) -> Block | None:
        """The open block to which text of the answer only adds. None if there is none."""
        plain = self._plain
        only_adds = plain is not None and plain.kind is PartKind.TEXT and not self._ahead
        return plain if only_adds else None

    def take(self, content: Content) -> list[BlockEvent]:
        """What the next content does."""
        if isinstance(content, str):
            return self._add_text(PartKind.TEXT, content)
        if content.choice or (content.kind is PartKind.DATA and content.name == CHUNK_EXTRA):
            return []
        if content.kind in _PLAIN:
            return self._add_text(content.kind, content.text, content.name, content.id)
        if content.kind in (PartKind.RESULT, PartKind.DATA):
            return self._value(content)
        return self._called(content)

    def end(self) -> list[BlockEvent]:
        """The answer ends, and with it what is open."""
        events: list[BlockEvent] = [End(block) for block in self.open]
        self._plain = None
        self._calls.clear()
        return events

    def release(self) -> list[BlockEvent]:
        """At the end of the log: the events that waited for other blocks. Here none wait."""
        return []

    def _add_text(
        self, kind: PartKind, text: str, name: str = "", detail: str = ""
    ) -> list[BlockEvent]:
        block = self._plain
        if block is not None and _goes_on(block, kind, name, detail):
            self._give_values(block)
            return [_more(block, text)]
        ended = self._end_plain()
        self._plain = block = self._new(kind, name)
        block.id = detail
        self._give_values(block)
        return [*ended, Begin(block), _more(block, text)]

    def _value(self, part: Part) -> list[BlockEvent]:
        """A value of the open block, or of what comes next, as log probabilities always are."""
        block = self._plain
        if is_returned(part):
            return self._returned(part, block)
        if block is None or part.name == "logprobs":
            self._ahead.append(part)
        else:
            block.values.append(part)
        return [Value(part, block)]

    def _returned(self, part: Part, plain: Block | None) -> list[BlockEvent]:
        """Fields that the server needs back."""
        block = self._calls.get(part.call) if part.name == CALL_EXTRA else plain
        if part.name == CALL_EXTRA and (call_id := self._call_ids.get(part.call)) is not None:
            return self._returned_late(part, block, call_id)
        if part.name == CALL_EXTRA and block is None:
            self._uncalled.setdefault(part.call, []).append(part)
            return self._silent(part) if self.seals_calls and not self._calls else []
        if block is not None and not block.silent:
            block.values.append(part)
            return [Value(part, block)]
        if self._calls:
            self._late.append(part)
            return []
        return self._silent(part)

    def _returned_late(self, part: Part, block: Block | None, call_id: str) -> list[BlockEvent]:
        """Fields of a call that has begun. `block`: it has not ended."""
        if self.seals_calls:
            self._late_calls.setdefault(call_id, []).append(part)
        if block is None:
            return self._late_blocks()
        block.values.append(part)
        return [Value(part, block)]

    def _silent(self, part: Part, call_id: str = "") -> list[BlockEvent]:
        ended = self._end_plain()
        self._plain = block = self._new(PartKind.REASONING, "")
        block.silent, block.id = True, call_id
        block.values.append(part)
        return [*ended, Begin(block), Value(part, block)]

    def _give_values(self, block: Block) -> None:
        if self._ahead:
            block.values += self._ahead
            self._ahead.clear()

    def _called(self, part: Part) -> list[BlockEvent]:
        block = self._calls.get(part.call)
        if part.kind is PartKind.CALL:
            return self._begin_call(part, block)
        if block is None:
            return []
        if part.kind is PartKind.ARGUMENTS:
            return [_more(block, part.text)]
        del self._calls[part.call]
        return [End(block), *self._late_blocks()]

    def _late_blocks(self) -> list[BlockEvent]:
        if self._calls:
            return []
        events: list[BlockEvent] = []
        for call_id, parts in self._late_calls.items():
            events += self._silent(_joined(parts, CALL_EXTRA), call_id)
        self._late_calls.clear()
        if self._late:
            events += self._silent(_joined(self._late, EXTRA))
            self._late.clear()
        return events

    def _begin_call(self, part: Part, known: Block | None) -> list[BlockEvent]:
        ended = self._end_plain()
        if known is not None:
            ended.append(End(known))
        block = self._new(PartKind.CALL, part.name)
        block.call, block.id, block.custom = part.call, part.id, part.text == "custom"
        block.values += self._uncalled.pop(part.call, [])
        self._calls[part.call] = block
        self._call_ids[part.call] = block.id
        return [*ended, Begin(block)]

    def _end_plain(self) -> list[BlockEvent]:
        block, self._plain = self._plain, None
        return [] if block is None else [End(block)]

    def _new(self, kind: PartKind, name: str) -> Block:
        self._count += 1
        return Block(self._count - 1, kind, name=name)


class SealingBlocks(Blocks):
    """Blocks for protocols with clients that drop unknown fields of a call."""

    __slots__ = ()
    seals_calls = True


def _joined(parts: Iterable[Part], name: str) -> Part:
    return Part(PartKind.DATA, orjson.dumps(_fields_in(parts)).decode(), name=name)


def _fields_in(values: Iterable[Part]) -> Fields:
    all_fields: Fields = {}
    for part in values:
        if is_returned(part):
            fields = orjson.loads(part.text)
            all_fields = join_fields(all_fields, fields if isinstance(fields, dict) else {})
    return all_fields


def _goes_on(block: Block, kind: PartKind, name: str, detail: str) -> bool:
    same = block.kind is kind and block.name == name and block.id == detail
    return same and not block.silent


def _more(block: Block, text: str) -> Delta:
    block.pieces.append(text)
    return Delta(block, text)
