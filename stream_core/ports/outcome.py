"""How an answer ended and what was said in it, as a session remembers it for its readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import orjson

from stream_core.log.entries import Content, Part, joined
from stream_core.log.response_log import LogEntry, ResponseState
from stream_core.ports.stored_json import plain_entries, read_entries

MOST_BYTES = 131_072
"""Bytes of an outcome. With it, a message and an answer an item of DynamoDB stays below 400 KB."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an answer ended, with its contents.

    Args:
        contents: all that stands of the answer, joined.
    """

    state: ResponseState
    contents: Sequence[Content] = ()
    finish_reason: str | None = None
    error: Mapping[str, Any] | None = None

    def to_text(self, answer: str | None) -> str:
        """The outcome as the ledger keeps it, beside the `answer` that the model is told later.

        Where the contents are too large their text is kept, and of a text that is too large
        nothing.
        """
        contents = list(self.contents)
        text = [content for content in contents if isinstance(content, str)]
        for kept in (contents, ["".join(text)] if text else [], []):
            outcome = self._as_json([] if kept == [answer] else kept)
            if len(outcome) <= MOST_BYTES:
                break
        return outcome.decode()

    @classmethod
    def from_text(cls, text: str, answer: str | None) -> Self:
        """The outcome in a text of `to_text`, with the answer that is beside it."""
        known = orjson.loads(text)
        contents = read_entries(known["contents"]) if "contents" in known else [answer or ""]
        return cls(
            ResponseState(known["state"]),
            tuple(cast("list[Content]", [content for content in contents if content])),
            known.get("finish_reason"),
            known.get("error"),
        )

    def _as_json(self, contents: Sequence[Content]) -> bytes:
        outcome: dict[str, Any] = {"state": self.state}
        if contents:
            outcome["contents"] = plain_entries(cast("Sequence[LogEntry]", contents))
        if self.finish_reason is not None:
            outcome["finish_reason"] = self.finish_reason
        if self.error is not None:
            outcome["error"] = self.error
        return orjson.dumps(outcome)


def contents_of(entries: Iterable[LogEntry | Part]) -> tuple[Content, ...]:
    """What stands of a log's entries, joined."""
    stand: list[tuple[int, Content]] = []
    for index, entry in enumerate(entries):
        if isinstance(entry, str | Part):
            stand.append((index, entry))
            continue
        while stand and stand[-1][0] > entry.from_index:
            stand.pop()
    return tuple(joined(content for _, content in stand))
