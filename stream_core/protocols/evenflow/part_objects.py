"""The parts of a response as JSON objects, for clients and other nodes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Self

import orjson
from pydantic import BaseModel, ConfigDict, JsonValue, model_validator

from evenflow.stream_core.log.entries import (
    CUSTOM,
    JOINING,
    NotAPart,
    Part,
    PartKind,
    is_of_call,
)

_WITH_TEXT = JOINING | {PartKind.RESULT}
# How many parts have the JSON around their deltas cached.
_CACHED_PARTS = 256


class PartObject(BaseModel):
    """What a model gave beside the text of its answer. Fields that don't apply are left out.

    `text` is what is added to the part (`text`, `reasoning`, `refusal`, `arguments`), or what a
    tool gave (`result`). `value` is any JSON, which `name` says what it is (`data`). `call` is the
    number of a call (`call`, `arguments`, `call_end`, `data` named `call_extra`), which has an
    `id`, and the tool's `name`; `custom` is there where the arguments are no JSON. The `id` of a
    `reasoning` says how its server tells it again. `choice` is there for any choice but the first.
    """

    model_config = ConfigDict(frozen=True)

    kind: PartKind
    text: str = ""
    value: JsonValue = None
    call: int = 0
    id: str = ""
    name: str = ""
    custom: bool = False
    choice: int = 0

    def to_part(self) -> Part:
        """The part."""
        text = self.text
        if self.kind is PartKind.DATA:
            text = _as_text(self.value)
        elif self.kind is PartKind.CALL:
            text = CUSTOM if self.custom else ""
        return Part(self.kind, text, self.choice, self.call, self.id, self.name)

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.to_part().check()
        return self


def part_object(part: Part) -> dict[str, Any]:
    """The object of a part."""
    kind = part.kind
    fields: dict[str, Any] = {"kind": kind.value}
    if kind in _WITH_TEXT:
        fields["text"] = part.text
    elif kind is PartKind.DATA:
        fields["value"] = orjson.loads(part.text)
    if is_of_call(part):
        fields["call"] = part.call
    if part.id:
        fields["id"] = part.id
    if part.name:
        fields["name"] = part.name
    if kind is PartKind.CALL and part.text == CUSTOM:
        fields["custom"] = True
    if part.choice:
        fields["choice"] = part.choice
    return fields


def part_json(part: Part) -> bytes:
    """The object of a part as JSON."""
    if part.kind not in JOINING:
        return orjson.dumps(part_object(part))
    before, behind = _around_text(part.kind, part.choice, part.call, part.id, part.name)
    return b"%b%b%b" % (before, orjson.dumps(part.text), behind)


@lru_cache(maxsize=_CACHED_PARTS)
def _around_text(
    kind: PartKind, choice: int, call: int, part_id: str, name: str
) -> tuple[bytes, bytes]:
    """What is before and behind the text in the JSON of deltas with this place."""
    encoded = orjson.dumps(part_object(Part(kind, "", choice, call, part_id, name)))
    field, empty = b'"text":', b'""'
    before, _, behind = encoded.partition(field + empty)
    return before + field, behind


def _as_text(value: JsonValue) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError as error:
        raise NotAPart(f"the value of data can't be written as JSON: {error}") from None
