"""Tools, a picture and a form, for whichever client."""

from __future__ import annotations

from typing import Any

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+"
    "M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

_RESULTS = {"get_weather": "sunny, 21 °C", "get_time": "12:00"}


def _tool(name: str, description: str) -> dict[str, Any]:
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": city},
    }


TOOLS = [_tool("get_weather", "The weather in a city."), _tool("get_time", "The time in a city.")]


def result_of(name: str) -> str:
    """What a tool gives."""
    return _RESULTS[name]


def get_weather(city: str) -> str:
    """The weather in a city."""
    return _RESULTS["get_weather"]


def get_time(city: str) -> str:
    """The time in a city."""
    return _RESULTS["get_time"]
