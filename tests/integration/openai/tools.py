"""Tools for the tests of this folder, and what the demo model makes of them."""

from __future__ import annotations

from typing import Any

from evenflow.fargate_handler.token_sources.demo.source import demo_arguments
from tests.integration.answer import Frame

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Does {name}.",
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
            },
        },
    }
    for name in ("look_up", "note")
]


def demo_call(index: int, turn: int = 1) -> Frame:
    """The call that the demo model makes, in a conversation that has so many turns."""
    name = TOOLS[index % len(TOOLS)]["function"]["name"]
    return {
        "id": f"call_{turn}_{index}",
        "type": "function",
        "function": {"name": name, "arguments": demo_arguments(index)},
    }
