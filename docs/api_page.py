"""Writes the reference of the calls in openapi.json and the frames in asyncapi.json, for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from docs.markdown import item, paragraph
from evenflow.stream_core.api_documents.asyncapi import asyncapi_document
from evenflow.stream_core.api_documents.openapi import openapi_document
from evenflow.stream_core.base.limits import Limits

Document = Mapping[str, Any]

_CODE = re.compile(r"`([a-z_]+)`")
_DIRECTIONS = {"receive": "client → server", "send": "server → client"}


def api_page(note: str) -> str:
    """The page."""
    http, frames = openapi_document(Limits()), asyncapi_document(Limits())
    calls = [
        (f"{method.upper()} {path}", call)
        for path, methods in http["paths"].items()
        for method, call in methods.items()
    ]
    counts = Counter(code for _, call in calls for code in _codes(call))
    frequent = [code for code, count in counts.items() if 2 * count > len(calls)]
    return "\n".join(
        [
            note,
            "# HTTP and WebSocket API",
            "",
            *paragraph(
                "The calls and frames, as [openapi.json](../openapi.json) and "
                "[asyncapi.json](../asyncapi.json) have them for machines; a server gives both at "
                "`GET /openapi.json` and `GET /asyncapi.json`. [The protocol](../protocol.md) "
                "explains them, [the errors](errors.md) have a page of their own, and "
                "[limits.md](../limits.md#calls) has each call's credentials and cost."
            ),
            "",
            "## HTTP",
            "",
            "A field with a question mark may be left out.",
            "",
            *paragraph(f"Most calls may also fail with {_linked(frequent)}."),
            *(line for title, call in calls for line in _call(title, call, http, set(frequent))),
            "",
            "## WebSockets",
            *(
                line
                for name, channel in frames["channels"].items()
                for line in _channel(name, channel, frames)
            ),
            "",
        ]
    )


def _call(title: str, call: Document, document: Document, frequent: set[str]) -> Iterable[str]:
    yield from ("", f"### {title}", "", *paragraph(call["summary"]))
    yield from _table(_parameters(call), "Parameters")
    body: Document = next(iter(call.get("requestBody", {}).get("content", {}).values()), {})
    yield from _table(_fields(body.get("schema", {}), document), "Fields of the body")
    yield ""
    for status, answer in call["responses"].items():
        if int(status) < 400:
            yield from item(f"**{status}**: {answer.get('description', '')}")
    if codes := [code for code in _codes(call) if code not in frequent]:
        yield from item(f"Errors: {_linked(codes)}")


def _codes(call: Document) -> Iterable[str]:
    """The error codes that a call may be answered with."""
    return dict.fromkeys(
        code
        for status, answer in call["responses"].items()
        if int(status) >= 400
        for code in _CODE.findall(answer.get("description", ""))
    )


def _linked(codes: Iterable[str]) -> str:
    return ", ".join(f"[`{code}`](errors.md#{code})" for code in codes)


def _channel(name: str, channel: Document, document: Document) -> Iterable[str]:
    yield from ("", f"### {channel['address']}", "", *paragraph(channel["description"]))
    for operation in document["operations"].values():
        if operation["channel"]["$ref"] != f"#/channels/{name}":
            continue
        yield from ("", f"**{_DIRECTIONS[operation['action']]}.** {operation['summary']}", "")
        yield from ("| frame | what it is | fields |", "|---|---|---|")
        for reference in operation["messages"]:
            message = _resolved(_resolved(reference, document), document)
            fields = [
                f"`{field}`" + ("" if is_required else "?")
                for field, _, is_required, _ in _fields(message["payload"], document)
                if field != "type"
            ]
            yield f"| `{message['name']}` | {_cell(message['summary'])} | {', '.join(fields)} |"


Row = tuple[str, str, bool, str]


def _parameters(call: Document) -> list[Row]:
    return [
        (it["name"], it["in"], it.get("required", False), it.get("description", ""))
        for it in call.get("parameters", [])
        if "name" in it
    ]


def _fields(schema: Document, document: Document) -> list[Row]:
    schema = _resolved(schema, document)
    required = schema.get("required", [])
    return [
        (name, _kind(field, document), name in required, field.get("description", ""))
        for name, field in schema.get("properties", {}).items()
    ]


def _table(rows: list[Row], title: str) -> Iterable[str]:
    """A table, or a line where nothing is said of any row."""
    if not rows:
        return
    yield ""
    if not any(text for *_, text in rows):
        names = (f"`{name}`" + ("" if is_required else "?") for name, _, is_required, _ in rows)
        yield from paragraph(f"{title}: {', '.join(names)}.")
        return
    yield from (f"| {title.lower()} | | what it is |", "|---|---|---|")
    for name, kind, is_required, text in rows:
        needed = f"{kind}, required" if is_required else kind
        yield f"| `{name}` | {_cell(needed)} | {_cell(text)} |"


def _kind(field: Document, document: Document) -> str:
    """A field's type in a word or two. Those of nested objects are in the document itself."""
    for key in ("anyOf", "oneOf"):
        if key in field:
            kinds = dict.fromkeys(_kind(each, document) for each in field[key])
            return " or ".join(kind for kind in kinds if kind != "null")
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "$ref" in field:
        return _kind(_resolved(field, document), document)
    kind = field.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _resolved(schema: Document, document: Document) -> Document:
    if "$ref" not in schema:
        return schema
    target: Any = document
    for part in schema["$ref"].removeprefix("#/").split("/"):
        target = target[part.replace("~1", "/").replace("~0", "~")]
    resolved: Document = target
    return resolved


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
