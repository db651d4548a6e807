"""Tools and their choice, as the Responses API and as chat completions have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evenflow.fargate_handler.gateway.openai.responses.refusals import unsupported, wrong
from evenflow.fargate_handler.gateway.requests.json_values import check_json

_SERVED = ("function", "custom")
_PLAIN_CHOICES = ("none", "auto", "required")


def chat_tools(tools: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The tools as chat completions have them.

    Raises:
        InvalidRequest: one is wrong, or is run by OpenAI's own servers.
    """
    return tuple(_chat_tool(tool, f"tools.{place}") for place, tool in enumerate(tools))


def told_tools(tools: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools as the Responses API has them, from those of `chat_tools`."""
    return [_told_tool(tool["type"], dict(tool[tool["type"]])) for tool in tools]


_Choice = str | dict[str, Any] | None


def chat_choice(choice: _Choice, names: set[str]) -> _Choice:
    """The choice of a tool as chat completions have it.

    Args:
        names: of the tools of the request.

    Raises:
        InvalidRequest: it is wrong, or not one of the tools.
    """
    if choice is None or (isinstance(choice, str) and choice in _PLAIN_CHOICES):
        return choice
    match choice:
        case {"type": "function" | "custom" as kind, "name": str(name)}:
            if name not in names:
                raise wrong(
                    f"tool_choice names {name[:64]!r}, which is none of the tools", "tool_choice"
                )
            return {"type": kind, kind: {"name": name}}
        case {"type": "allowed_tools", "mode": str(mode), "tools": list(tools)}:
            allowed = [chat_choice(tool, names) for tool in tools]
            return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": allowed}}
        case {"type": str(kind)}:
            raise unsupported(
                f"tool_choice {kind[:64]!r} is a tool of OpenAI's servers, which is not served "
                "here",
                "tool_choice",
            )
    raise wrong(
        f"tool_choice must be one of {', '.join(_PLAIN_CHOICES)}, or name a tool", "tool_choice"
    )


def _chat_tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    kind = tool.get("type")
    if kind not in _SERVED:
        raise unsupported(
            f"{where}: tools of the type {str(kind)[:64]!r} are run by OpenAI's servers, and not "
            "served here; give functions or custom tools, and run them yourself",
            where,
        )
    if not isinstance(tool.get("name"), str) or not tool["name"]:
        raise wrong(f"{where}.name must be a text", f"{where}.name")
    check_json(tool, where)
    given = {name: value for name, value in tool.items() if name != "type" and value is not None}
    match given.get("format"):
        case {"type": "grammar", **grammar}:
            given["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": kind, kind: given}


def _told_tool(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    match given.get("format"):
        case {"type": "grammar", "grammar": dict(grammar)}:
            given["format"] = {"type": "grammar", **grammar}
    if kind == "function":
        given = {"parameters": None, "strict": None, **given}
    return {"type": kind, **given}
