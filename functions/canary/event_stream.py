"""Server-sent events, read as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event. `data` is "" for an event without, `event_id` None where it names none."""

    kind: str
    data: str
    event_id: str | None


def server_events(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
    """The events of a body's lines. Comments and what a cut leaves unfinished are no events."""
    kind, data, event_id = "message", list[str](), None
    for line in lines:
        text = line.decode().rstrip("\r\n")
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if not text:
            if data:
                yield ServerEvent(kind, "\n".join(data), event_id)
            kind, data, event_id = "message", [], None
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            event_id = value
