"""Reads the blocks of Anthropic's API as the parts of OpenAI's, which token sources know."""

from __future__ import annotations

from typing import Any

from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.anthropic.bodies import GivenBlock

Part = dict[str, Any]


def parts_of(content: str | list[GivenBlock], where: str) -> list[Part]:
    """The text, images and files of a message, or of a tool's result.

    Args:
        where: the path of `content` in the request.

    Raises:
        InvalidRequest: a block is of another type, or is wrong.
    """
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part_of(block, f"{where}.{place}") for place, block in enumerate(content)]


def part_of(block: GivenBlock, where: str) -> Part:
    """One block as a part.

    Raises:
        InvalidRequest: it is no text, image or document, or is wrong.
    """
    given = block.model_dump()
    check_json(given, where)
    match given:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": source}:
            return {"type": "image_url", "image_url": {"url": _url_of_image(source, where)}}
        case {"type": "document", "source": source}:
            if (given.get("citations") or {}).get("enabled"):
                raise unsupported("citations of documents", f"{where}.citations")
            return _document(source, given.get("title"), where)
        case {"type": "text" | "image" | "document"}:
            raise wrong(f"{where} is no whole block of the type {block.type}", where)
    raise unsupported(f"blocks of the type {block.type[:40]!r}", f"{where}.type")


def only_text(parts: list[Part]) -> str | None:
    """The text of parts that are nothing but text. Otherwise None."""
    if any(part["type"] != "text" for part in parts):
        return None
    return "".join(part["text"] for part in parts)


def _url_of_image(source: Any, where: str) -> str:
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            return f"data:{kind};base64,{data}"
        case {"type": "url", "url": str(url)}:
            return url
    raise _unknown_source(where)


def _document(source: Any, title: object, where: str) -> Part:
    match source:
        case {"type": "text", "data": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            name = title if isinstance(title, str) and title else "document.pdf"
            file = {"filename": name, "file_data": f"data:{kind};base64,{data}"}
            return {"type": "file", "file": file}
    raise _unknown_source(where)


def _unknown_source(where: str) -> InvalidRequest:
    return unsupported("this kind of source", f"{where}.source")


def wrong(what: str, param: str) -> InvalidRequest:
    """The error for a field that is wrong."""
    return InvalidRequest(f"{what}; nothing was generated", code="invalid_field", param=param)


def unsupported(what: str, param: str) -> InvalidRequest:
    """The error for something that Anthropic has and this server has not."""
    return InvalidRequest(
        f"{param[:100]}: {what} are not served here; nothing was generated",
        code="unsupported_parameter",
        param=param[:100],
    )
