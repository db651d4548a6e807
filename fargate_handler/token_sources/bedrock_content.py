"""What a turn says as the content blocks of ConverseStream."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from stream_core.conversation import Turn
from stream_core.errors import UnsupportedByModel

_FORMATS = {"png": "png", "jpeg": "jpeg", "jpg": "jpeg", "gif": "gif", "webp": "webp"}
_IMAGE = re.compile(r"data:image/([a-z]+);base64,", re.IGNORECASE)
# What an assistant did otherwise than by functions, and what its answer depends on.
_UNTOLD = ("audio", "function_call", "tool_calls")


def check_turn(turn: Turn, where: str) -> None:
    """Whether all of a turn can be told.

    Args:
        where: its place in the request, with a dot at its end.

    Raises:
        UnsupportedByModel: part of it can't.
    """
    if turn.role == "function":
        raise _refusal("the role function is not supported by models on Amazon Bedrock", f"{where}role")
    for name in _UNTOLD:
        if name in turn.extra:
            raise _refusal(f"{where}{name} is not supported by models on Amazon Bedrock", f"{where}{name}")
    for place, part in enumerate(turn.parts):
        within = f"{where}content.{place}"
        if turn.role == "system" and part["type"] != "text":
            raise _refusal(f"{within} must be text in what the system says", within)
        _block(part, within)


def content_blocks(turn: Turn) -> list[dict[str, Any]]:
    """The text and the images of a turn that was checked. A blank text, which would be refused, is none."""
    if not turn.parts:
        return [{"text": turn.text}] if turn.text.strip() else []
    return [block for part in turn.parts if (block := _block(part, "")) is not None]


def _block(part: dict[str, Any], where: str) -> dict[str, Any] | None:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"text": text} if text.strip() else None
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return {"image": _image(url, where)}
    raise _refusal(f"{where}: parts of type {part['type'][:40]!r} are not supported by models on Amazon Bedrock", where)


def _image(url: str, where: str) -> dict[str, Any]:
    head = _IMAGE.match(url)
    kind = _FORMATS.get(head[1].lower()) if head else None
    if head is None or kind is None:
        raise _refusal(
            f"{where}: models on Amazon Bedrock take images as data URLs alone (data:image/png;base64,…), of type "
            "png, jpeg, gif or webp",
            where,
        )
    try:
        return {"format": kind, "source": {"bytes": base64.b64decode(url[head.end() :], validate=True)}}
    except binascii.Error:
        raise _refusal(f"{where}: the image's data is not base64", where) from None


def _refusal(what: str, param: str) -> UnsupportedByModel:
    return UnsupportedByModel(f"{what}; nothing was generated", code="unsupported_value", param=param)
