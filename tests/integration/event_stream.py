"""Reads server-sent events the way a browser does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp

from tests.integration.answer import Answer, Frame


@dataclass(frozen=True)
class Event:
    """One event, or one comment (then only `comment` is set)."""

    kind: str = ""
    id: str = ""
    data: str = ""
    comment: str = ""

    @property
    def frame(self) -> Frame:
        """Its data."""
        value: Frame = json.loads(self.data)
        return value


async def read_events(answer: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    """Events and comments in order."""
    fields: dict[str, str] = {}
    async for raw in answer.content:
        line = raw.decode().removesuffix("\n").removesuffix("\r")
        if line.startswith(":"):
            yield Event(comment=line[1:].strip() or " ")
        elif line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        else:
            if "data" in fields:  # `retry` alone is no event
                yield Event(fields.get("event", ""), fields.get("id", ""), fields["data"])
            fields = {}
    assert not fields, f"the stream ended within an event: {fields}"


async def read_answer(
    stream: aiohttp.ClientResponse, answer: Answer, until_index: int | None = None
) -> list[Event]:
    """Take events into `answer` to the stream's end, or until an index is there; every entry
    must have its id.
    """
    events = []
    async for event in read_events(stream):
        if event.comment:
            continue
        assert event.kind == event.frame["type"]
        if event.kind == "chat.response.queued":  # it may be told at any time, and is no entry
            assert event.id == ""
            continue
        answer.take(event.frame)
        assert event.id == event_id(answer), event
        events.append(event)
        if until_index is not None and answer.last >= until_index:
            break
    return events


def event_id(answer: Answer) -> str:
    """The id of the last event that `answer` took; empty where an EventSource should begin
    again.
    """
    if answer.end:
        return f"{_place(answer)}.end"
    return _place(answer) if answer.last >= 0 else ""


def _place(answer: Answer) -> str:
    return f"{answer.last}" if answer.epoch == 1 else f"{answer.last}.{answer.epoch}"
