"""Pydantic AI with its chat model."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from side_by_side import Server, run
from tools import PIXEL, get_time, get_weather


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def agent(server: Server, **options: Any) -> Agent[Any, Any]:
    provider = OpenAIProvider(base_url=server.url, api_key=server.key)
    return Agent(
        OpenAIChatModel(server.model, provider=provider), instructions="Be brief.", **options
    )


def told(result: Any) -> dict[str, Any]:
    usage = result.usage
    return {
        "output": result.output,
        "tokens": [usage.input_tokens, usage.output_tokens],
        "requests": usage.requests,
    }


async def whole(server: Server) -> Any:
    return told(await agent(server).run(server.question("text")))


async def stream(server: Server) -> Any:
    async with agent(server).run_stream(server.question("text")) as result:
        return "".join([text async for text in result.stream_text(delta=True, debounce_by=None)])


async def tools(server: Server) -> Any:
    return told(await agent(server, tools=[get_weather, get_time]).run(server.question("tools")))


async def structured_output(server: Server) -> Any:
    return (
        await agent(server, output_type=Person).run(server.question("person"))
    ).output.model_dump()


async def native_output(server: Server) -> Any:
    return (
        await agent(server, output_type=NativeOutput(Person)).run(server.question("person"))
    ).output.model_dump()


async def image(server: Server) -> Any:
    return told(
        await agent(server).run([server.question("text"), BinaryContent.from_data_uri(PIXEL)])
    )


async def two_turns(server: Server) -> Any:
    guide = agent(server)
    first = await guide.run(server.question("turns"))
    return [told(first), told(await guide.run("And then?", message_history=first.all_messages()))]


async def reasoning(server: Server) -> Any:
    messages = (await agent(server).run(server.question("reasoning"))).new_messages()
    return [(part.part_kind, part.content) for part in messages[-1].parts]


async def silence_within(server: Server) -> Any:
    async with agent(server).run_stream(server.question("silence-within")) as result:
        return await result.get_output()


async def too_long(server: Server) -> Any:
    return told(await agent(server).run(server.question("too-long")))


if __name__ == "__main__":
    run(globals())
