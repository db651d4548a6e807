"""OpenAI's Agents SDK with its default model."""

from __future__ import annotations

from typing import Any

from agents import (
    Agent,
    ModelSettings,
    Runner,
    ToolSearchTool,
    function_tool,
    set_default_openai_client,
    set_tracing_disabled,
    tool_namespace,
)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
from pydantic import BaseModel
from scenarios import Server, run


class Person(BaseModel):
    name: str
    age: int


def say_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


get_weather = function_tool(say_weather, name_override="get_weather")


@function_tool
def get_time(city: str) -> str:
    """The time in a city."""
    return f"noon in {city}"


def agent(server: Server, **options: Any) -> Agent[Any]:
    set_default_openai_client(AsyncOpenAI(base_url=server.url, api_key="sk-anything"))
    return Agent(name="Guide", instructions="Be brief.", model=server.model, **options)


def told(result: Any) -> dict[str, Any]:
    usage = result.context_wrapper.usage
    return {
        "output": result.final_output,
        "items": [item.type for item in result.new_items],
        "tokens": [usage.input_tokens, usage.output_tokens],
    }


async def whole(server: Server) -> Any:
    return told(await Runner.run(agent(server), server.question("text")))


async def stream(server: Server) -> Any:
    result = Runner.run_streamed(agent(server), server.question("text"))
    raw = [event.data.type async for event in result.stream_events() if hasattr(event, "data")]
    return told(result) | {"deltas": "response.output_text.delta" in raw}


async def tools(server: Server) -> Any:
    guide = agent(server, tools=[get_weather, get_time])
    result = Runner.run_streamed(guide, server.question("tools"))
    async for _ in result.stream_events():
        pass
    return told(result)


async def tools_by_id(server: Server) -> Any:
    """The server has the conversation: each turn names the response before."""
    guide = agent(server, tools=[get_weather, get_time])
    return told(await Runner.run(guide, server.question("tools"), auto_previous_response_id=True))


async def namespace(server: Server) -> Any:
    """Functions in a namespace, of which the model is to be told by a search."""
    deferred = function_tool(say_weather, defer_loading=True)
    space = tool_namespace(name="sky", description="The sky.", tools=[deferred])
    guide = agent(server, tools=[*space, ToolSearchTool()])
    return told(await Runner.run(guide, server.question("first-tool")))


async def structured(server: Server) -> Any:
    result = await Runner.run(agent(server, output_type=Person), server.question("person"))
    return result.final_output.model_dump()


async def reasoning(server: Server) -> Any:
    settings = ModelSettings(reasoning=Reasoning(effort="low", summary="auto"))
    guide = agent(server, model_settings=settings)
    first = await Runner.run(guide, server.question("reasoning"))
    further = [*first.to_input_list(), {"role": "user", "content": "And then?"}]
    return [told(first), told(await Runner.run(guide, further))]


async def too_long(server: Server) -> Any:
    return told(await Runner.run(agent(server), server.question("too-long")))


if __name__ == "__main__":
    set_tracing_disabled(True)
    run(globals())
