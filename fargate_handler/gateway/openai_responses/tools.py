"""Tools and their choice, as the Responses API and as chat completions have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.fargate_handler.gateway.openai_responses.refusals import unsupported, wrong
from evenflow.stream_core.protocols.openai_responses.namespaces import joined_name

_SERVED = ("function", "custom")
_SEARCH = "tool_search"
_WEB_SEARCH = "web_search"
# Fields that say when a tool is offered to the model: here all tools are offered at once.
_OF_SEARCH = frozenset({"type", "defer_loading"})
_PLAIN_CHOICES = ("none", "auto", "required")


def chat_tools(tools: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Translate the tools into the form of chat completions, with joined names for namespaces.

    A `tool_search` of the server is left out, since all tools are offered at once. So is a
    `web_search` beside tools of the client, which an agent can do without.

    Raises:
        InvalidRequest: a tool is wrong, or only OpenAI's servers have it.
    """
    offered: list[dict[str, Any]] = []
    has_own = _has_own(tools)
    for place, tool in enumerate(tools):
        where = f"tools.{place}"
        if tool.get("type") == "namespace":
            offered += _namespace_tools(tool, where)
        elif not _is_left_out(tool, has_own=has_own):
            offered.append(_chat_tool(tool, where))
    return tuple(offered)


def kept_tools(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools without those that `chat_tools` leaves out."""
    has_own = _has_own(tools)
    return [tool for tool in tools if not _is_left_out(tool, has_own=has_own)]


def _has_own(tools: Sequence[dict[str, Any]]) -> bool:
    """Whether there are tools that the client runs itself."""
    return any(tool.get("type") in (*_SERVED, "namespace") for tool in tools)


def _is_left_out(tool: dict[str, Any], *, has_own: bool) -> bool:
    kind = tool.get("type")
    if kind == _SEARCH:
        return tool.get("execution") != "client"
    return has_own and kind == _WEB_SEARCH


def has_other_types(tools: Iterable[dict[str, Any]]) -> bool:
    """Whether there are types of tools that `told_tools` can't restore."""
    return any(tool["type"] not in _SERVED for tool in tools)


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
        case {"type": "function" | "custom" as kind, "name": str(name), **more}:
            if isinstance(space := more.get("namespace"), str):
                name = joined_name(space, name)
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


def _namespace_tools(space: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """The tools in a namespace. Its description goes into that of the first tool."""
    name, inner = space.get("name"), space.get("tools")
    if not isinstance(name, str) or not name:
        raise wrong(f"{where}.name must be a text", f"{where}.name")
    if not isinstance(inner, list) or not all(isinstance(tool, dict) for tool in inner):
        raise wrong(f"{where}.tools must be a list of tools", f"{where}.tools")
    offered = []
    for place, tool in enumerate(inner):
        chat_tool = _chat_tool(tool, f"{where}.tools.{place}")
        definition = chat_tool[chat_tool["type"]]
        definition["name"] = joined_name(name, definition["name"])
        offered.append(chat_tool)
    if offered and isinstance(about := space.get("description"), str):
        first = offered[0][offered[0]["type"]]
        own = first.get("description", "")
        first["description"] = f"{own}\n\nThis and all tools of {name}: {about}".strip()
    return offered


def _chat_tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    kind = tool.get("type")
    if kind not in _SERVED:
        raise unsupported(
            f"{where}: tools of the type {str(kind)[:64]!r} run only on OpenAI's servers, and not "
            "here; offer functions or custom tools, also in namespaces, and run them in the client",
            where,
        )
    if not isinstance(tool.get("name"), str) or not tool["name"]:
        raise wrong(f"{where}.name must be a text", f"{where}.name")
    check_json(tool, where)
    given = {
        name: value for name, value in tool.items() if name not in _OF_SEARCH and value is not None
    }
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
