"""The end and the contents of an answer, as a session keeps them for its readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import orjson

from evenflow.stream_core.log.entries import Content, LogEntry, Restart, joined
from evenflow.stream_core.log.response_log import ResponseState, slice_of
from evenflow.stream_core.stores.stored_json import plain_entries, read_entries

MOST_BYTES = 131_072
"""Bytes of an outcome. With it, a message and an answer an item of DynamoDB stays below 400 KB."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an answer ended, with its contents.

    Args:
        contents: all of the answer, joined, without replaced text.
    """

    state: ResponseState
    contents: Sequence[Content] = ()
    finish_reason: str | None = None
    error: Mapping[str, Any] | None = None

    def to_text(self, answer: str | None) -> str:
        """The outcome as the ledger keeps it, beside the `answer` for later calls of the model.

        Of contents that are too large only the text is kept, and of a text that is too large
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
        """The outcome in a text of `to_text`, with the answer that is kept with it."""
        known = orjson.loads(text)
        kept = read_entries(known["contents"]) if "contents" in known else [answer or ""]
        return cls(
            ResponseState(known["state"]),
            tuple(each for each in kept if each and not isinstance(each, Restart)),
            known.get("finish_reason"),
            known.get("error"),
        )

    def _as_json(self, contents: Sequence[Content]) -> bytes:
        outcome: dict[str, Any] = {"state": self.state}
        if contents:
            outcome["contents"] = plain_entries(contents)
        if self.finish_reason is not None:
            outcome["finish_reason"] = self.finish_reason
        if self.error is not None:
            outcome["error"] = self.error
        return orjson.dumps(outcome)


def contents_of(entries: Sequence[LogEntry]) -> tuple[Content, ...]:
    """The entries of a log, joined, without replaced ones."""
    return tuple(joined(slice_of(entries, 0).current))
