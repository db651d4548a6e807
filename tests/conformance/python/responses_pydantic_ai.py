"""Pydantic AI with the model that `openai:` names."""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models import infer_model
from scenarios import Server, run


class Person(BaseModel):
    name: str
    age: int


def agent(server: Server, **options: Any) -> Agent[Any, Any]:
    os.environ |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-anything"}
    return Agent(f"openai:{server.model}", **options)


def told(result: Any) -> dict[str, Any]:
    usage = result.usage
    parts = [part.part_kind for message in result.new_messages() for part in message.parts]
    return {
        "output": result.output,
        "parts": parts,
        "tokens": [usage.input_tokens, usage.output_tokens],
    }


async def model(server: Server) -> Any:
    """What `openai:` names."""
    agent(server)
    return type(infer_model(f"openai:{server.model}")).__name__


async def whole(server: Server) -> Any:
    return told(await agent(server).run(server.question("text")))


async def stream(server: Server) -> Any:
    async with agent(server).run_stream(server.question("text")) as result:
        pieces = [piece async for piece in result.stream_text(delta=True)]
        return {"text": "".join(pieces)}


async def tools(server: Server) -> Any:
    guide = agent(server)

    @guide.tool_plain
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return f"sunny in {city}"

    @guide.tool_plain
    def get_time(city: str) -> str:
        """The time in a city."""
        return f"noon in {city}"

    return told(await guide.run(server.question("tools")))


async def structured(server: Server) -> Any:
    result = await agent(server, output_type=Person).run(server.question("person"))
    return result.output.model_dump()


async def reasoning(server: Server) -> Any:
    guide = agent(server)
    first = await guide.run(server.question("reasoning"))
    second = await guide.run("And then?", message_history=first.all_messages())
    return [told(first), told(second)]


async def too_long(server: Server) -> Any:
    return told(await agent(server).run(server.question("too-long")))


if __name__ == "__main__":
    run(globals())
