"""Frames against an AsyncAPI document: which message a frame is, and whether it is exactly as
described.
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft7Validator

Document = dict[str, Any]


class AsyncApiFrames:
    """Checks frames, and remembers which messages were seen.

    A client has to put up with fields that it doesn't know, so the document allows them; here one
    that it doesn't name is a mistake of the document or of the server.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._components = {"components": {"schemas": _closed(document["components"]["schemas"])}}
        self.seen: set[tuple[str, str]] = set()

    def all_of(self, channel: str) -> set[tuple[str, str]]:
        """Operation and message, of everything described of a channel."""
        operations = [
            name for name in self._document["operations"] if name.partition(".")[0] == channel
        ]
        return {(operation, name) for operation in operations for name in self._messages(operation)}

    def check(self, operation: str, frame: Any) -> None:
        """Fail unless the frame is a message of this operation."""
        name = frame["type"] if isinstance(frame, dict) else _compact_name(frame)
        assert name in self._messages(operation), f"{name} is no message of {operation}: {frame}"
        channel = self._document["channels"][operation.partition(".")[0]]
        message = channel["messages"][name]["$ref"].rpartition("/")[2]
        payload = self._document["components"]["messages"][message]["payload"]
        errors = list(Draft7Validator({**payload, **self._components}).iter_errors(frame))
        assert not errors, f"{frame}: {[error.message for error in errors]}"
        self.seen.add((operation, name))

    def _messages(self, operation: str) -> set[str]:
        return {
            message["$ref"].rpartition("/")[2]
            for message in self._document["operations"][operation]["messages"]
        }


def _compact_name(frame: list[Any]) -> str:
    is_part = any(isinstance(said, dict) for said in frame)
    return "CompactPart" if is_part else "CompactDelta"


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(inner) for name, inner in schema.items()}
    return {**closed, "additionalProperties": False} if schema.get("type") == "object" else closed
