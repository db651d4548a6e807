"""Tool calls of the demo model, which a message asks for: it can't tell when one makes sense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evenflow.fargate_handler.token_sources.demo.beside import call, call_arguments
from evenflow.fargate_handler.token_sources.demo.script import Script
from evenflow.fargate_handler.token_sources.port import ModelOptions
from evenflow.stream_core.base.errors import ModelRefused
from evenflow.stream_core.log.entries import Kind


def called_tools(count: int, options: ModelOptions) -> list[str]:
    """The names of the tools for `count` calls, beginning with the first one that may be called.

    Raises:
        ModelRefused: there are no tools, or a call is required and the message asks for none.
    """
    if count and not options.tools:
        raise _refused("this message asks for calls, and the request has no tools")
    if not count and options.tool_choice not in (None, "auto", "none"):
        raise _refused(
            "the request requires a call, and the demo model calls only for a message `#demo "
            "calls=1`"
        )
    if options.tool_choice == "none":
        return []
    names = [tool["function"]["name"] for tool in options.tools]
    if isinstance(options.tool_choice, dict):
        names = [options.tool_choice["function"]["name"]]
    if options.parallel_tool_calls is False:
        count = min(count, 1)
    return [names[place % len(names)] for place in range(count)]


def calling(script: Script, names: Sequence[str], turn: int) -> Script:
    """The script with a call of each of these tools after its text, with one argument `text`.

    Args:
        turn: the length of the conversation. The calls' ids depend on it and on the place.
    """
    if not names:
        return script
    made = sum(part.kind is Kind.CALL for part in script.before)
    calls = [
        part
        for place, name in enumerate(names)
        for part in call(made + place, f"call_{turn}_{place}", name, demo_arguments(place))
    ]
    return replace(script, follows=[*script.follows, *calls], reason="tool_calls")


def demo_arguments(index: int) -> str:
    """The arguments of the call `index`, as JSON."""
    return call_arguments(index + 1)


def _refused(what: str) -> ModelRefused:
    return ModelRefused(f"{what}; nothing was generated", code="model_refused")
