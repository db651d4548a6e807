"""OpenAI's Agents SDK with its chat model."""

from __future__ import annotations

from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel
from side_by_side import Server, run
from tools import get_time, get_weather


class Person(BaseModel):
    name: str
    age: int


def agent(server: Server, **options: Any) -> Agent[Any]:
    client = AsyncOpenAI(base_url=server.url, api_key=server.key)
    model = OpenAIChatCompletionsModel(model=server.model, openai_client=client)
    return Agent(name="Guide", instructions="Be brief.", model=model, **options)


def told(result: Any) -> dict[str, Any]:
    usage = result.context_wrapper.usage
    items = [item.type for item in result.new_items]
    return {
        "output": result.final_output,
        "items": items,
        "tokens": [usage.input_tokens, usage.output_tokens],
    }


async def whole(server: Server) -> Any:
    return told(await Runner.run(agent(server), server.question("text")))


async def stream(server: Server) -> Any:
    result = Runner.run_streamed(agent(server), server.question("text"))
    events = [event.type async for event in result.stream_events()]
    return told(result) | {"events": sorted(set(events))}


async def tools(server: Server) -> Any:
    guide = agent(server, tools=[function_tool(get_weather), function_tool(get_time)])
    return told(await Runner.run(guide, server.question("tools")))


async def tools_streamed(server: Server) -> Any:
    guide = agent(server, tools=[function_tool(get_weather), function_tool(get_time)])
    result = Runner.run_streamed(guide, server.question("tools"))
    async for _ in result.stream_events():
        pass
    return told(result)


async def structured_output(server: Server) -> Any:
    result = await Runner.run(agent(server, output_type=Person), server.question("person"))
    return result.final_output.model_dump()


async def two_turns(server: Server) -> Any:
    guide = agent(server)
    first = await Runner.run(guide, server.question("turns"))
    further = [*first.to_input_list(), {"role": "user", "content": "And then?"}]
    return [told(first), told(await Runner.run(guide, further))]


async def silence_within(server: Server) -> Any:
    result = Runner.run_streamed(agent(server), server.question("silence-within"))
    async for _ in result.stream_events():
        pass
    return told(result)


if __name__ == "__main__":
    set_tracing_disabled(True)
    run(globals())
