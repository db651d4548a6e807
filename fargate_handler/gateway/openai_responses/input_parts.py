"""Reads the parts of an item's content as the parts of a message of chat completions."""

from __future__ import annotations

from typing import Any

from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.fargate_handler.gateway.openai_responses.refusals import unsupported, wrong
from evenflow.stream_core.session.conversation import text_of_parts

_TEXTS = ("input_text", "output_text", "text")
_FILE_FIELDS = ("file_data", "filename")


def text_or_parts(content: object, where: str) -> tuple[str, tuple[dict[str, Any], ...]]:
    """The text of a content, and its parts if they are more than text.

    Raises:
        InvalidRequest: it is wrong, or has a part that is not read here.
    """
    parts = read_parts(content, where)
    text = text_of_parts(parts)
    return text, () if all(part["type"] == "text" for part in parts) else parts


def read_parts(content: object, where: str) -> tuple[dict[str, Any], ...]:
    """The parts of a content, by the names of chat completions.

    Raises:
        InvalidRequest: it is wrong, or has a part that is not read here.
    """
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise wrong(f"{where} must be a text, or a list of parts", where)
    return tuple(_part(part, f"{where}.{place}") for place, part in enumerate(content))


def _part(part: dict[str, Any], where: str) -> dict[str, Any]:
    match part:
        case {"type": kind, "text": str(text)} if kind in _TEXTS:
            return {"type": "text", "text": text}
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "refusal", "refusal": text}
        case {"type": "input_image", "image_url": str(url)}:
            image = {"url": url}
            if isinstance(part.get("detail"), str):
                image["detail"] = part["detail"]
            return {"type": "image_url", "image_url": image}
        case {"type": "input_file", "file_data": str()}:
            file = {name: part[name] for name in _FILE_FIELDS if isinstance(part.get(name), str)}
            return {"type": "file", "file": file}
        case {"type": "input_audio", "input_audio": dict(audio)}:
            check_json(audio, where)
            return {"type": "input_audio", "input_audio": audio}
        case {"type": "input_image" | "input_file"}:
            raise unsupported(
                f"{where}: files are not kept here; send an image as `image_url`, and a file as "
                "`file_data`",
                where,
            )
    raise wrong(f"{where} is no part of a content: {str(part.get('type'))[:64]!r}", f"{where}.type")
