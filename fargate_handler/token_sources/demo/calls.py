"""Tool calls of the demo model, which a message asks for: it can't tell when one makes sense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import orjson

from fargate_handler.token_sources.demo.script import Script, demo_tokens, split_tokens
from fargate_handler.token_sources.port import ModelOptions
from stream_core.log.marked_text import MarkedTextWriter
from stream_core.protocol.errors import ModelRefused

_ARGUMENT_TOKENS = 12


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
    return (
        replace(script, tokens=script.tokens + list(_calls(names, turn)), reason="tool_calls")
        if names
        else script
    )


def demo_arguments(index: int) -> str:
    """The arguments of the call `index`, as JSON."""
    return orjson.dumps({"text": "".join(demo_tokens(index + 1, _ARGUMENT_TOKENS))}).decode()


def _calls(names: Sequence[str], turn: int) -> Iterator[str]:
    writer = MarkedTextWriter()
    for index, name in enumerate(names):
        yield writer.call(index, "", f"call_{turn}_{index}", name)
        for token in split_tokens(demo_arguments(index)):
            yield writer.call(index, token)


def _refused(what: str) -> ModelRefused:
    return ModelRefused(f"{what}; nothing was generated", code="model_refused")
